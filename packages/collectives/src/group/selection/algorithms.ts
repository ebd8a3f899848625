import { bruckAllGather, bruckAllGatherCost } from '../../algorithms/bruck-all-gather.ts';
import { chainBroadcast, chainBroadcastCost } from '../../algorithms/chain-broadcast.ts';
import { chainReduce, chainReduceCost } from '../../algorithms/chain-reduce.ts';
import { noCost } from '../../algorithms/cost.ts';
import { directAllReduce, directAllReduceCost } from '../../algorithms/direct-all-reduce.ts';
import { directGather, directGatherCost } from '../../algorithms/direct-gather.ts';
import {
  directReduceScatter,
  directReduceScatterCost,
} from '../../algorithms/direct-reduce-scatter.ts';
import { directReduce, directReduceCost } from '../../algorithms/direct-reduce.ts';
import { directScatter, directScatterCost } from '../../algorithms/direct-scatter.ts';
import {
  disseminationBarrier,
  disseminationBarrierCost,
} from '../../algorithms/dissemination-barrier.ts';
import {
  halvingDoublingAllReduce,
  halvingDoublingAllReduceCost,
} from '../../algorithms/halving-doubling-all-reduce.ts';
import {
  hierarchicalAllGather,
  hierarchicalAllGatherCost,
} from '../../algorithms/hierarchical-all-gather.ts';
import {
  hierarchicalAllReduce,
  hierarchicalAllReduceCost,
} from '../../algorithms/hierarchical-all-reduce.ts';
import {
  hierarchicalAllToAll,
  hierarchicalAllToAllCost,
} from '../../algorithms/hierarchical-all-to-all.ts';
import {
  hierarchicalBarrier,
  hierarchicalBarrierCost,
} from '../../algorithms/hierarchical-barrier.ts';
import {
  hierarchicalBroadcast,
  hierarchicalBroadcastCost,
} from '../../algorithms/hierarchical-broadcast.ts';
import {
  hierarchicalReduceScatter,
  hierarchicalReduceScatterCost,
} from '../../algorithms/hierarchical-reduce-scatter.ts';
import {
  hierarchicalReduce,
  hierarchicalReduceCost,
} from '../../algorithms/hierarchical-reduce.ts';
import { pairwiseAllToAll, pairwiseAllToAllCost } from '../../algorithms/pairwise-all-to-all.ts';
import { ringAllGather, ringAllGatherCost } from '../../algorithms/ring-all-gather.ts';
import { ringAllReduce, ringAllReduceCost } from '../../algorithms/ring-all-reduce.ts';
import { ringReduceScatter, ringReduceScatterCost } from '../../algorithms/ring-reduce-scatter.ts';
import { treeBroadcast, treeBroadcastCost } from '../../algorithms/tree-broadcast.ts';
import { twoPhaseAllReduce, twoPhaseAllReduceCost } from '../../algorithms/two-phase-all-reduce.ts';
import type { Operation } from '../../call/record.ts';
import {
  type Algorithm,
  byteSplitsOf,
  nativeOf,
  reductionOf,
  rootBufferOf,
  rootOf,
} from './algorithm.ts';

type Hosts = readonly (readonly number[])[];

const everywhere = (): boolean => true;
const severalHosts = (hosts: Hosts): boolean => hosts.length > 1;
/** Whether there are several hosts, of which at least one has several ranks. */
const sharedHosts = (hosts: Hosts): boolean =>
  severalHosts(hosts) && hosts.some((ranks) => ranks.length > 1);
/** Whether adding host by host adds in rank order, which it does if the ranks of each host follow each other. */
const hostsInOrder = (hosts: Hosts): boolean =>
  severalHosts(hosts) && hosts.flat().every((rank, index) => rank === index);

/** Whether the group has native collectives, such as those of MPI. */
const native = (_hosts: Hosts, isNative: boolean): boolean => isNative;

const usual = { rankOrder: true, beginsEarly: false, supports: everywhere };

/** Every algorithm of each operation. The first one works everywhere and adds in rank order. */
export const algorithms: Readonly<
  Record<Operation, readonly [Algorithm, ...(readonly Algorithm[])]>
> = {
  allReduce: [
    {
      ...usual,
      operation: 'allReduce',
      name: 'two-phase',
      beginsEarly: true,
      cost: twoPhaseAllReduceCost,
      run: (communicator, call, options) =>
        twoPhaseAllReduce(communicator, call.input, reductionOf(call, options), options),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'direct',
      beginsEarly: true,
      cost: directAllReduceCost,
      run: (communicator, call, options) =>
        directAllReduce(communicator, call.input, reductionOf(call, options), options),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'ring',
      rankOrder: false,
      cost: ringAllReduceCost,
      run: (communicator, call, options) =>
        ringAllReduce(communicator, call.input, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'halving-doubling',
      rankOrder: false,
      cost: halvingDoublingAllReduceCost,
      run: (communicator, call, options) =>
        halvingDoublingAllReduce(communicator, call.input, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'hierarchical',
      supports: hostsInOrder,
      cost: hierarchicalAllReduceCost,
      run: (communicator, call, options) =>
        hierarchicalAllReduce(communicator, call.input, reductionOf(call, options)),
    },
  ],
  reduceScatter: [
    {
      ...usual,
      operation: 'reduceScatter',
      name: 'direct',
      cost: directReduceScatterCost,
      run: (communicator, call, options) =>
        directReduceScatter(communicator, call.input, call.output, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduceScatter',
      name: 'ring',
      rankOrder: false,
      cost: ringReduceScatterCost,
      run: (communicator, call, options) =>
        ringReduceScatter(communicator, call.input, call.output, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduceScatter',
      name: 'hierarchical',
      supports: hostsInOrder,
      cost: hierarchicalReduceScatterCost,
      run: (communicator, call, options) =>
        hierarchicalReduceScatter(
          communicator,
          call.input,
          call.output,
          reductionOf(call, options),
        ),
    },
  ],
  reduce: [
    {
      ...usual,
      operation: 'reduce',
      name: 'direct',
      cost: directReduceCost,
      run: (communicator, call, options) =>
        directReduce(communicator, call.input, rootOf(call), reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduce',
      name: 'chain',
      cost: chainReduceCost,
      run: (communicator, call, options) =>
        chainReduce(communicator, call.input, rootOf(call), reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduce',
      name: 'hierarchical',
      supports: hostsInOrder,
      cost: hierarchicalReduceCost,
      run: (communicator, call, options) =>
        hierarchicalReduce(communicator, call.input, rootOf(call), reductionOf(call, options)),
    },
  ],
  allGather: [
    {
      ...usual,
      operation: 'allGather',
      name: 'ring',
      cost: ringAllGatherCost,
      run: (communicator, { input, output }) => ringAllGather(communicator, input, output),
    },
    {
      ...usual,
      operation: 'allGather',
      name: 'bruck',
      cost: bruckAllGatherCost,
      run: (communicator, { input, output }) => bruckAllGather(communicator, input, output),
    },
    {
      ...usual,
      operation: 'allGather',
      name: 'hierarchical',
      supports: severalHosts,
      cost: hierarchicalAllGatherCost,
      run: (communicator, { input, output }) => hierarchicalAllGather(communicator, input, output),
    },
    {
      ...usual,
      operation: 'allGather',
      name: 'native',
      supports: native,
      cost: ringAllGatherCost,
      run: (_wire, { input, output }, options) => nativeOf(options).allGather(input, output),
    },
  ],
  broadcast: [
    {
      ...usual,
      operation: 'broadcast',
      name: 'tree',
      cost: treeBroadcastCost,
      run: (communicator, call) =>
        treeBroadcast(communicator, rootBufferOf(communicator, call), rootOf(call)),
    },
    {
      ...usual,
      operation: 'broadcast',
      name: 'chain',
      cost: chainBroadcastCost,
      run: (communicator, call) =>
        chainBroadcast(communicator, rootBufferOf(communicator, call), rootOf(call)),
    },
    {
      ...usual,
      operation: 'broadcast',
      name: 'hierarchical',
      supports: severalHosts,
      cost: hierarchicalBroadcastCost,
      run: (communicator, call) =>
        hierarchicalBroadcast(communicator, rootBufferOf(communicator, call), rootOf(call)),
    },
    {
      ...usual,
      operation: 'broadcast',
      name: 'native',
      supports: native,
      cost: treeBroadcastCost,
      run: (communicator, call, options) =>
        nativeOf(options).broadcast(rootBufferOf(communicator, call), rootOf(call)),
    },
  ],
  barrier: [
    {
      ...usual,
      operation: 'barrier',
      name: 'dissemination',
      beginsEarly: true,
      cost: disseminationBarrierCost,
      run: (communicator) => disseminationBarrier(communicator),
    },
    {
      ...usual,
      operation: 'barrier',
      name: 'hierarchical',
      beginsEarly: true,
      supports: severalHosts,
      cost: hierarchicalBarrierCost,
      run: (communicator) => hierarchicalBarrier(communicator),
    },
    {
      ...usual,
      operation: 'barrier',
      name: 'meeting',
      // The ranks of groups with native collectives have always met before.
      supports: native,
      cost: noCost,
      run: () => Promise.resolve(),
    },
  ],
  gather: [
    {
      ...usual,
      operation: 'gather',
      name: 'direct',
      cost: directGatherCost,
      run: (communicator, call) =>
        directGather(communicator, call.input, call.output, rootOf(call)),
    },
  ],
  scatter: [
    {
      ...usual,
      operation: 'scatter',
      name: 'direct',
      cost: directScatterCost,
      run: (communicator, call) =>
        directScatter(communicator, call.input, call.output, rootOf(call)),
    },
  ],
  allToAll: [
    {
      ...usual,
      operation: 'allToAll',
      name: 'pairwise',
      cost: pairwiseAllToAllCost,
      run: (communicator, call) =>
        pairwiseAllToAll(communicator, call.input, call.output, byteSplitsOf(call)),
    },
    {
      ...usual,
      operation: 'allToAll',
      name: 'hierarchical',
      supports: sharedHosts,
      cost: hierarchicalAllToAllCost,
      run: (communicator, call) =>
        hierarchicalAllToAll(communicator, call.input, call.output, byteSplitsOf(call)),
    },
  ],
  split: [
    {
      ...usual,
      operation: 'split',
      name: 'meeting',
      cost: noCost,
      // The ranks have told each other all that a split needs when they met.
      run: () => Promise.resolve(),
    },
  ],
};
