// Prints the subject of a certificate, and the name of its principal, as Apache Kafka derives them.
//
// One request a line: the certificate in Base64, and rules in Base64. The response is one line: the subject, and the name
// or "-" if no rule matches, both in Base64; or only "-" if Java rejects the certificate.

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.Base64;

import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

public class CertificateNames {
    public static void main(String[] args) throws Exception {
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = requests.readLine()) != null) {
            String[] words = line.split(" ");
            byte[] certificate = Base64.getDecoder().decode(words[0]);
            String rules = new String(Base64.getDecoder().decode(words[1]), StandardCharsets.UTF_8);
            String subject;
            try {
                subject = ((X509Certificate) factory.generateCertificate(new ByteArrayInputStream(certificate)))
                    .getSubjectX500Principal().getName();
            } catch (Exception e) {
                System.out.println("-");
                continue;
            }
            System.out.println(encode(subject) + " " + name(rules, subject));
        }
    }

    private static String name(String rules, String subject) {
        try {
            return encode(SslPrincipalMapper.fromRules(rules).getName(subject));
        } catch (Exception e) {
            return "-";
        }
    }

    private static String encode(String text) {
        return "=" + Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
