import java.io.File;
import java.util.List;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A key distribution centre of Kerberos. The arguments are a directory, a port, a realm, the lifetime of tickets in
 * seconds, and the names of principals. The keys of all principals are written to DIRECTORY/NAME.keytab, where NAME
 * has `_` instead of `/`. The program ends at the end of its input.
 */
final class Kdc {
    private Kdc() { }

    public static void main(String[] words) throws Exception {
        File directory = new File(words[0]);
        SimpleKdcServer kdc = new SimpleKdcServer();
        kdc.setWorkDir(directory);
        kdc.setKdcHost("127.0.0.1");
        kdc.setKdcRealm(words[2]);
        kdc.setAllowUdp(false);
        kdc.setKdcTcpPort(Integer.parseInt(words[1]));
        kdc.getKdcConfig().setLong(KdcConfigKey.MAXIMUM_TICKET_LIFETIME, Long.parseLong(words[3]));
        kdc.init();
        kdc.start();
        for (String name : List.of(words).subList(4, words.length)) {
            kdc.createPrincipal(name + "@" + words[2]);
            kdc.exportPrincipal(name + "@" + words[2], new File(directory, name.replace('/', '_') + ".keytab"));
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            continue;
        }
        kdc.stop();
    }
}
