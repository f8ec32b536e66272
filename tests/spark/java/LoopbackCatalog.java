import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Iceberg's own REST catalog on the loopback address: its own main listens everywhere. PORT, WAREHOUSE, JDBC address. */
public final class LoopbackCatalog {
    public static void main(String[] given) throws Exception {
        Map<String, String> properties = Map.of(
            CatalogProperties.CATALOG_IMPL, "org.apache.iceberg.jdbc.JdbcCatalog",
            CatalogProperties.WAREHOUSE_LOCATION, given[1],
            CatalogProperties.URI, given[2],
            "jdbc.schema-version", "V1");
        var catalog = CatalogUtil.buildIcebergCatalog("rest_backend", properties, new Configuration());
        var context = new ServletContextHandler();
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(given[0])));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
