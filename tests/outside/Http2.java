// Loads each target with Java's HttpClient over HTTP/2, many at a time, and compares the bytes with the file. Must be
// started with -Djdk.internal.httpclient.disableHostnameVerification. Usage: java ... Http2.java ORIGIN LIST.
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;

public class Http2 {
    static final int AT_A_TIME = 50;

    public static void main(String[] arguments) throws Exception {
        // The server signed its own certificate.
        var trust = SSLContext.getInstance("TLS");
        trust.init(null, new TrustManager[] {new Anybody()}, null);
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_2).sslContext(trust).build();
        var lines = Files.readAllLines(Path.of(arguments[1]));
        var places = new Semaphore(AT_A_TIME);
        var loads = new ArrayList<CompletableFuture<Void>>();
        for (var line : lines) {
            var parts = line.split("\t");
            // The first request opens the connection that all others share.
            if (loads.size() == 1) loads.get(0).join();
            places.acquire();
            var request = HttpRequest.newBuilder(URI.create(arguments[0] + parts[0])).build();
            loads.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofByteArray())
                .thenAccept(response -> compare(parts[0], response, Path.of(parts[1])))
                .whenComplete((done, fault) -> places.release()));
        }
        for (var load : loads) load.join();
        System.out.println("compared " + loads.size());
    }

    static void compare(String target, HttpResponse<byte[]> response, Path file) {
        if (response.statusCode() != 200 || response.version() != HttpClient.Version.HTTP_2) {
            throw new IllegalStateException(target + ": " + response.version() + " " + response.statusCode());
        }
        try {
            if (!Arrays.equals(response.body(), Files.readAllBytes(file))) {
                throw new IllegalStateException(target + ": bytes that are not the file's");
            }
        } catch (java.io.IOException fault) {
            throw new IllegalStateException(fault);
        }
    }

    static class Anybody implements X509TrustManager {
        public void checkClientTrusted(X509Certificate[] chain, String kind) {}

        public void checkServerTrusted(X509Certificate[] chain, String kind) {}

        public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
        }
    }
}
