// The MBeans of a running JVM, one a line, sorted: object name, tab, its attributes by commas.
// The argument is the port of its JMX agent. Only the domains of Apache Kafka are listed.

import java.util.*;
import javax.management.*;
import javax.management.remote.*;

public class MBeans {
    public static void main(String[] arguments) throws Exception {
        String url = "service:jmx:rmi:///jndi/rmi://127.0.0.1:" + arguments[0] + "/jmxrmi";
        Set<String> lines = new TreeSet<>();
        try (JMXConnector connector = JMXConnectorFactory.connect(new JMXServiceURL(url))) {
            MBeanServerConnection server = connector.getMBeanServerConnection();
            for (ObjectName name : server.queryNames(null, null)) {
                if (!name.getDomain().contains("kafka")) continue;
                Set<String> attributes = new TreeSet<>();
                for (MBeanAttributeInfo each : server.getMBeanInfo(name).getAttributes())
                    attributes.add(each.getName());
                lines.add(name + "\t" + String.join(",", attributes));
            }
        }
        lines.forEach(System.out::println);
    }
}
