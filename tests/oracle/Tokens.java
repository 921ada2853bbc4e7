// Apache Kafka's server side of OAUTHBEARER. Each line of the input is a command, with words between tabs.
//   signed URL audiences issuer scope-claim sub-claim skew-seconds    `-` is an absent issuer
//   unsecured name=value ...                                          options of the login module
//   message BASE64     prints what a new server answers: `user NAME EXPIRES_MS`, `challenge BASE64`,
//                      `rejected MESSAGE`, `invalid` (no message for the client), or `failed CLASS`

import java.io.*;
import java.util.*;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.SaslException;
import org.apache.kafka.common.errors.SaslAuthenticationException;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.*;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler;

public class Tokens {
    static final String PREFIX = "sasl.oauthbearer.";

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        AuthenticateCallbackHandler handler = null;
        Scanner lines = new Scanner(System.in, "UTF-8").useDelimiter("\n");
        while (lines.hasNext()) {
            String[] words = lines.next().split("\t", -1);
            switch (words[0]) {
                case "signed":
                    handler = signed(words);
                    break;
                case "unsecured":
                    handler = new OAuthBearerUnsecuredValidatorCallbackHandler();
                    handler.configure(Map.of(), "OAUTHBEARER", module(options(words)));
                    break;
                default:
                    out.println(answer(handler, Base64.getDecoder().decode(words[1])));
            }
        }
        out.flush();
    }

    static AuthenticateCallbackHandler signed(String[] words) {
        System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", words[1]);
        Map<String, Object> configs = new HashMap<>();
        configs.put(PREFIX + "jwks.endpoint.url", words[1]);
        configs.put(PREFIX + "jwks.endpoint.refresh.ms", 3600000L);
        configs.put(PREFIX + "jwks.endpoint.retry.backoff.ms", 100L);
        configs.put(PREFIX + "jwks.endpoint.retry.backoff.max.ms", 10000L);
        configs.put(PREFIX + "expected.audience",
            words[2].isEmpty() ? List.of() : List.of(words[2].split(",")));
        if (!words[3].equals("-"))
            configs.put(PREFIX + "expected.issuer", words[3]);
        configs.put(PREFIX + "scope.claim.name", words[4]);
        configs.put(PREFIX + "sub.claim.name", words[5]);
        configs.put(PREFIX + "clock.skew.seconds", Integer.parseInt(words[6]));
        configs.put(PREFIX + "jwt.validator.class", DefaultJwtValidator.class);
        OAuthBearerValidatorCallbackHandler handler = new OAuthBearerValidatorCallbackHandler();
        handler.configure(configs, "OAUTHBEARER", module(Map.of()));
        return handler;
    }

    static Map<String, String> options(String[] words) {
        Map<String, String> options = new HashMap<>();
        for (int i = 1; i < words.length; i++) {
            String[] parts = words[i].split("=", 2);
            options.put(parts[0], parts[1]);
        }
        return options;
    }

    static List<AppConfigurationEntry> module(Map<String, String> options) {
        return List.of(new AppConfigurationEntry(OAuthBearerLoginModule.class.getName(),
            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED, options));
    }

    static String answer(AuthenticateCallbackHandler handler, byte[] message) {
        OAuthBearerSaslServer server = new OAuthBearerSaslServer(handler);
        try {
            byte[] challenge = server.evaluateResponse(message);
            if (!server.isComplete())
                return "challenge " + Base64.getEncoder().encodeToString(challenge);
            OAuthBearerToken token =
                (OAuthBearerToken) server.getNegotiatedProperty("OAUTHBEARER.token");
            return "user " + server.getAuthorizationID() + " " + token.lifetimeMs();
        } catch (SaslAuthenticationException problem) {
            return "rejected " + problem.getMessage();
        } catch (SaslException problem) {
            return "invalid";
        } catch (RuntimeException problem) {
            return "failed " + problem.getClass().getSimpleName();
        }
    }
}
