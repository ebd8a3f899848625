import {
  createGroup,
  createLoopbackTransports,
  createThreadsWorld,
  hostedTransport,
  joinThreadsWorld,
} from '@shardwise/collectives';
import type { ProcessGroup } from '@shardwise/core/spec';
import {
  processGroupContract,
  processGroupRandomCalls,
  RankFailure,
  runProcessGroupScenario,
  type ProcessGroupScenario,
  type RankOutcome,
} from '@shardwise/testing';

async function play(group: ProcessGroup, scenario: ProcessGroupScenario): Promise<RankOutcome> {
  try {
    const value = await runProcessGroupScenario(group, scenario);
    return { status: 'fulfilled', value };
  } catch (error) {
    return { status: 'rejected', error: new RankFailure(group.rank, reportOf(error)) };
  } finally {
    group.close();
  }
}

function reportOf(error: unknown): ConstructorParameters<typeof RankFailure>[1] {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return { name, message, stack, code: undefined, fields: {} };
}

/** Ranks of one thread, on hosts that are each a world of shared memory. */
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
    return Promise.all(groups.map((group) => play(group, scenario)));
  };
}

const twoHosts = (size: number): readonly number[] =>
  Array.from({ length: size }, (_, rank) => (2 * rank < size ? 0 : 1));

processGroupContract({
  name: 'ranks on two hosts',
  run: runOn(twoHosts),
  sizes: [2, 4],
});

processGroupRandomCalls({
  name: 'through the hosts',
  run: runOn(
    (size) => Array.from({ length: size }, (_, rank) => Math.floor(rank / 2)),
    'allReduce=hierarchical,reduceScatter=hierarchical,reduce=hierarchical,' +
      'allGather=hierarchical,broadcast=hierarchical,barrier=hierarchical',
  ),
  sizes: [3, 4, 5],
});

processGroupRandomCalls({
  name: 'hosts whose ranks take turns',
  run: runOn((size) => Array.from({ length: size }, (_, rank) => rank % 2)),
  sizes: [4],
});
