// Loaded into Azurite before its own code: no "100 Continue" where no body follows, which RFC 9110 (10.1.1) allows.
//
// PyArrow asks for one with every PUT. If an error arrives in the same read, its client loses the error and waits until the
// server closes the idle connection, after 7 s. Each delete in an account without a hierarchical namespace ends with such a
// PUT: the release of the deleted file's lease.
const http = require("node:http");

const create = http.createServer;
http.createServer = (...options) => {
  const server = create(...options);
  server.on("checkContinue", (request, response) => {
    if (request.headers["content-length"] !== "0") response.writeContinue();
    server.emit("request", request, response);
  });
  return server;
};
