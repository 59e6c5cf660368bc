import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.URI;

/** Gets a URL twice from inside a sandbox: as Java does by itself, and by the proxy that it is told. */
public final class Fetch {
  public static void main(String[] args) throws Exception {
    Proxy told = new Proxy(Proxy.Type.HTTP, InetSocketAddress.createUnresolved("wardyn-proxy", 3128));
    for (Proxy proxy : new Proxy[] {Proxy.NO_PROXY, told}) {
      System.out.println(proxy.type() + ": " + get(args[0], proxy));
    }
  }

  private static String get(String url, Proxy proxy) throws Exception {
    try {
      HttpURLConnection c = (HttpURLConnection) URI.create(url).toURL().openConnection(proxy);
      return c.getResponseCode() + " " + new String(c.getInputStream().readAllBytes());
    } catch (IOException e) {
      return e.toString();
    }
  }
}
