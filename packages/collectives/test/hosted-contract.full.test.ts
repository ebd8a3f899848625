import {
  createGroup,
  createLoopbackTransports,
  createThreadsWorld,
  hostedTransport,
  joinThreadsWorld,
} from '@shardwise/collectives';
import {
  processGroupSuite,
  randomCallsSuite,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';
import { testSuite } from '@shardwise/testing/vitest';
import { playScenario } from './play-scenario.ts';

/** Runs ranks on one thread. Each host is a shared-memory world. */
function runOn(hostsOf: (size: number) => readonly number[], algorithm = '') {
  return async (size: number, scenario: ProcessGroupScenario): Promise<readonly RankOutcome[]> => {
    const hosts = hostsOf(size);
    const worlds = new Map(
      [...new Set(hosts)].map((host) => {
        const ranks = hosts.filter((other) => other === host).length;
        return [host, createThreadsWorld({ size: ranks, arenaBytes: 1 << 16 })] as const;
      }),
    );
    const groups = createLoopbackTransports(size).map((remote, rank) => {
      const localRank = hosts.slice(0, rank).filter((host) => host === hosts[rank]).length;
      const local = joinThreadsWorld(worlds.get(hosts[rank]!)!, localRank);
      return createGroup(hostedTransport({ local, remote, hosts }), { hosts, algorithm });
    });
    return Promise.all(groups.map((group) => playScenario(group, scenario)));
  };
}

const twoHosts = (size: number): readonly number[] =>
  Array.from({ length: size }, (_, rank) => (2 * rank < size ? 0 : 1));

testSuite(
  processGroupSuite({
    name: 'ranks on two hosts',
    run: runOn(twoHosts),
    sizes: [2, 4],
  }),
);

testSuite(
  randomCallsSuite({
    name: 'through the hosts',
    run: runOn(
      (size) => Array.from({ length: size }, (_, rank) => Math.floor(rank / 2)),
      'allReduce=hierarchical,reduceScatter=hierarchical,reduce=hierarchical,' +
        'allGather=hierarchical,broadcast=hierarchical,barrier=hierarchical,allToAll=hierarchical',
    ),
    sizes: [3, 4, 5],
  }),
);

testSuite(
  randomCallsSuite({
    name: 'hosts whose ranks take turns',
    run: runOn((size) => Array.from({ length: size }, (_, rank) => rank % 2)),
    sizes: [4],
  }),
);
