import java.io.File;
import java.util.List;
import org.apache.kerby.kerberos.kerb.client.KrbClient;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;
import org.apache.kerby.kerberos.kerb.type.KerberosTime;
import org.apache.kerby.kerberos.kerb.type.kdc.EncKdcRepPart;
import org.apache.kerby.kerberos.kerb.type.ticket.TgtTicket;

/**
 * A key distribution centre of Kerberos. The arguments are a directory, a port, a realm, the lifetime of tickets in
 * seconds, and the names of principals. The keys of all principals are written to DIRECTORY/NAME.keytab, where NAME
 * has `_` instead of `/`.
 *
 * Users are the principals without `/`. Of each user there are also keys that were replaced (NAME.old.keytab), a
 * cache with a ticket (NAME.tickets), and one whose ticket, as the cache says, has expired an hour ago
 * (NAME.expired.tickets). `nobody.keytab` has the keys of a principal that does not exist any more.
 *
 * The program ends at the end of its input.
 */
final class Kdc {
    private static final long HOUR_MS = 3_600_000;

    private final SimpleKdcServer server = new SimpleKdcServer();
    private final File directory;
    private final String realm;

    private Kdc(File directory, int port, String realm, long lifetimeSeconds) throws Exception {
        this.directory = directory;
        this.realm = realm;
        server.setWorkDir(directory);
        server.setKdcHost("127.0.0.1");
        server.setKdcRealm(realm);
        server.setAllowUdp(false);
        server.setKdcTcpPort(port);
        server.getKdcConfig().setLong(KdcConfigKey.MAXIMUM_TICKET_LIFETIME, lifetimeSeconds);
        server.init();
        server.start();
    }

    public static void main(String[] words) throws Exception {
        Kdc kdc = new Kdc(new File(words[0]), Integer.parseInt(words[1]), words[2], Long.parseLong(words[3]));
        kdc.createAndDelete("nobody", "nobody.keytab");
        for (String name : List.of(words).subList(4, words.length)) {
            if (name.contains("/")) {
                kdc.create(name, name.replace('/', '_') + ".keytab");
            } else {
                kdc.createAndDelete(name, name + ".old.keytab");
                kdc.requestTickets(name, kdc.create(name, name + ".keytab"));
            }
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
        kdc.server.stop();
    }

    private File create(String name, String file) throws Exception {
        File keys = new File(directory, file);
        server.createPrincipal(name + "@" + realm);
        server.exportPrincipal(name + "@" + realm, keys);
        return keys;
    }

    private void createAndDelete(String name, String file) throws Exception {
        create(name, file);
        server.deletePrincipal(name + "@" + realm);
    }

    private void requestTickets(String name, File keys) throws Exception {
        KrbClient client = server.getKrbClient();
        TgtTicket ticket = client.requestTgt(name + "@" + realm, keys);
        client.storeTicket(ticket, new File(directory, name + ".tickets"));
        long now = System.currentTimeMillis();
        EncKdcRepPart shown = ticket.getEncKdcRepPart();
        shown.setAuthTime(new KerberosTime(now - 2 * HOUR_MS));
        shown.setStartTime(new KerberosTime(now - 2 * HOUR_MS));
        shown.setEndTime(new KerberosTime(now - HOUR_MS));
        client.storeTicket(ticket, new File(directory, name + ".expired.tickets"));
    }
}
