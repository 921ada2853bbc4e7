import java.io.File;
import java.util.List;
import org.apache.kerby.kerberos.kerb.ccache.CredentialCache;
import org.apache.kerby.kerberos.kerb.client.KrbClient;
import org.apache.kerby.kerberos.kerb.common.EncryptionUtil;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;
import org.apache.kerby.kerberos.kerb.type.KerberosTime;
import org.apache.kerby.kerberos.kerb.type.base.EncryptedData;
import org.apache.kerby.kerberos.kerb.type.base.EncryptionKey;
import org.apache.kerby.kerberos.kerb.type.base.KeyUsage;
import org.apache.kerby.kerberos.kerb.type.kdc.EncKdcRepPart;
import org.apache.kerby.kerberos.kerb.type.ticket.EncTicketPart;
import org.apache.kerby.kerberos.kerb.type.ticket.SgtTicket;
import org.apache.kerby.kerberos.kerb.type.ticket.TgtTicket;
import org.apache.kerby.kerberos.kerb.type.ticket.Ticket;

/**
 * A key distribution centre of Kerberos. The arguments are a directory, a port, a realm, the lifetime of tickets in
 * seconds, and the names of principals. The keys of all principals are written to DIRECTORY/NAME.keytab, where NAME
 * has `_` instead of `/`.
 *
 * Users are the principals without `/`; services are named before them. Of each user there are also keys that were
 * replaced (NAME.old.keytab), and three caches. NAME.tickets has a ticket. NAME.expired.tickets says that its ticket
 * has expired an hour ago. NAME.outdated.tickets has only a ticket for the first service, which has expired an hour
 * ago, although the cache says that it is valid. `nobody.keytab` has the keys of a principal that does not exist any
 * more.
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
        Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            System.exit(1); // else the server's threads go on
        });
        Kdc kdc = new Kdc(new File(words[0]), Integer.parseInt(words[1]), words[2], Long.parseLong(words[3]));
        kdc.createAndDelete("nobody", "nobody.keytab");
        for (String name : List.of(words).subList(4, words.length)) {
            if (name.contains("/")) {
                kdc.create(name, name.replace('/', '_') + ".keytab");
            } else {
                kdc.createAndDelete(name, name + ".old.keytab");
                kdc.requestTickets(name, kdc.create(name, name + ".keytab"), words[4]);
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

    private void requestTickets(String name, File keys, String service) throws Exception {
        KrbClient client = server.getKrbClient();
        TgtTicket ticket = client.requestTgt(name + "@" + realm, keys);
        client.storeTicket(ticket, new File(directory, name + ".tickets"));
        SgtTicket forService = client.requestSgt(ticket, service + "@" + realm);
        outdate(forService.getTicket(), service);
        new CredentialCache(forService).store(new File(directory, name + ".outdated.tickets"));
        EncKdcRepPart shown = ticket.getEncKdcRepPart();
        shown.setAuthTime(ago(2));
        shown.setStartTime(ago(2));
        shown.setEndTime(ago(1));
        client.storeTicket(ticket, new File(directory, name + ".expired.tickets"));
    }

    /** Replaces the times in a ticket, which only the KDC and the service can read. */
    private void outdate(Ticket ticket, String service) throws Exception {
        EncryptedData sealed = ticket.getEncryptedEncPart();
        EncryptionKey key = server.getIdentityService().getIdentity(service + "@" + realm).getKey(sealed.getEType());
        EncTicketPart part = EncryptionUtil.unseal(sealed, key, KeyUsage.KDC_REP_TICKET, EncTicketPart.class);
        part.setAuthTime(ago(2));
        part.setStartTime(ago(2));
        part.setEndTime(ago(1));
        ticket.setEncryptedEncPart(EncryptionUtil.seal(part, key, KeyUsage.KDC_REP_TICKET));
    }

    private static KerberosTime ago(int hours) {
        return new KerberosTime(System.currentTimeMillis() - hours * HOUR_MS);
    }
}
