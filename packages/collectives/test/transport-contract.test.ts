import {
  type ConnectedPorts,
  connectPorts,
  createLoopbackTransports,
  createThreadsWorld,
  hostedTransport,
  joinThreadsWorld,
  portTransport,
} from '@shardwise/collectives';
import { MemoryStore, tcpTransport } from '@shardwise/collectives/node';
import { transportSuite } from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';

testSuite(
  transportSuite({ name: 'loopback', open: async (size) => createLoopbackTransports(size) }),
);

let ports: ConnectedPorts['ranks'] = [];
testSuite(
  transportSuite({
    name: 'ports',
    open: async (size) => {
      ({ ranks: ports } = connectPorts(size));
      return ports.map((own, rank) => portTransport({ rank, size, ports: own }));
    },
    // This is what happens when the thread of a rank ends.
    lose: async (_, rank) => {
      for (const port of ports[rank] ?? []) port?.close();
    },
  }),
);

for (const encrypt of [false, true]) {
  testSuite(
    transportSuite({
      name: encrypt ? 'encrypted tcp' : 'tcp',
      open: (size) => {
        const store = new MemoryStore();
        const ranks = Array.from({ length: size }, (_, rank) => rank);
        const secret = 'open sesame';
        return Promise.all(
          ranks.map((rank) => tcpTransport({ store, rank, size, secret, encrypt })),
        );
      },
    }),
  );
}

testSuite(
  transportSuite({
    name: 'ranks on two hosts',
    open: async (size) => {
      const hosts = Array.from({ length: size }, (_, rank) => (rank < 2 ? 0 : 1));
      const worlds = [2, size - 2].map((ranks) =>
        createThreadsWorld({ size: ranks, arenaBytes: 1 << 16 }),
      );
      return createLoopbackTransports(size).map((remote, rank) => {
        const world = worlds[hosts[rank] ?? 0];
        if (world === undefined) throw new RangeError();
        const local = joinThreadsWorld(world, rank < 2 ? rank : rank - 2);
        return hostedTransport({ local, remote, hosts });
      });
    },
  }),
);
