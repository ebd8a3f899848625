import { bruckAllGather, bruckAllGatherCost } from '../../algorithms/bruck-all-gather.ts';
import { chainBroadcast, chainBroadcastCost } from '../../algorithms/chain-broadcast.ts';
import { chainReduce, chainReduceCost } from '../../algorithms/chain-reduce.ts';
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
import type { Cost } from '../../algorithms/wire.ts';
import type { Operation } from '../../call/record.ts';
import type { Algorithm } from './algorithm.ts';
import { byteSplitsOf, nativeOf, reductionOf, rootBufferOf, rootOf } from './call-parts.ts';

type Hosts = readonly (readonly number[])[];

const everywhere = (): boolean => true;
const severalHosts = (hosts: Hosts): boolean => hosts.length > 1;
/** Going through the hosts one after the other is rank order where the ranks of each follow each other. */
const hostsInOrder = (hosts: Hosts): boolean =>
  severalHosts(hosts) && hosts.flat().every((rank, index) => rank === index);

/** Of MPI, say. */
const native = (_hosts: Hosts, isNative: boolean): boolean => isNative;

const nothing: Cost = { steps: () => 0, bytesPerRank: () => 0 };

const usual = { rankOrder: true, beginsEarly: false, supports: everywhere };

/** Every algorithm, by operation; the first of each works everywhere and keeps the order. */
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
      run: (wire, call, options) =>
        twoPhaseAllReduce(wire, call.input, reductionOf(call, options), options),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'direct',
      beginsEarly: true,
      cost: directAllReduceCost,
      run: (wire, call, options) =>
        directAllReduce(wire, call.input, reductionOf(call, options), options),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'ring',
      rankOrder: false,
      cost: ringAllReduceCost,
      run: (wire, call, options) => ringAllReduce(wire, call.input, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'halving-doubling',
      rankOrder: false,
      cost: halvingDoublingAllReduceCost,
      run: (wire, call, options) =>
        halvingDoublingAllReduce(wire, call.input, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'allReduce',
      name: 'hierarchical',
      supports: hostsInOrder,
      cost: hierarchicalAllReduceCost,
      run: (wire, call, options) =>
        hierarchicalAllReduce(wire, call.input, reductionOf(call, options)),
    },
  ],
  reduceScatter: [
    {
      ...usual,
      operation: 'reduceScatter',
      name: 'direct',
      cost: directReduceScatterCost,
      run: (wire, call, options) =>
        directReduceScatter(wire, call.input, call.output, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduceScatter',
      name: 'ring',
      rankOrder: false,
      cost: ringReduceScatterCost,
      run: (wire, call, options) =>
        ringReduceScatter(wire, call.input, call.output, reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduceScatter',
      name: 'hierarchical',
      supports: hostsInOrder,
      cost: hierarchicalReduceScatterCost,
      run: (wire, call, options) =>
        hierarchicalReduceScatter(wire, call.input, call.output, reductionOf(call, options)),
    },
  ],
  reduce: [
    {
      ...usual,
      operation: 'reduce',
      name: 'direct',
      cost: directReduceCost,
      run: (wire, call, options) =>
        directReduce(wire, call.input, rootOf(call), reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduce',
      name: 'chain',
      cost: chainReduceCost,
      run: (wire, call, options) =>
        chainReduce(wire, call.input, rootOf(call), reductionOf(call, options)),
    },
    {
      ...usual,
      operation: 'reduce',
      name: 'hierarchical',
      supports: hostsInOrder,
      cost: hierarchicalReduceCost,
      run: (wire, call, options) =>
        hierarchicalReduce(wire, call.input, rootOf(call), reductionOf(call, options)),
    },
  ],
  allGather: [
    {
      ...usual,
      operation: 'allGather',
      name: 'ring',
      cost: ringAllGatherCost,
      run: (wire, { input, output }) => ringAllGather(wire, input, output),
    },
    {
      ...usual,
      operation: 'allGather',
      name: 'bruck',
      cost: bruckAllGatherCost,
      run: (wire, { input, output }) => bruckAllGather(wire, input, output),
    },
    {
      ...usual,
      operation: 'allGather',
      name: 'hierarchical',
      supports: severalHosts,
      cost: hierarchicalAllGatherCost,
      run: (wire, { input, output }) => hierarchicalAllGather(wire, input, output),
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
      run: (wire, call) => treeBroadcast(wire, rootBufferOf(wire, call), rootOf(call)),
    },
    {
      ...usual,
      operation: 'broadcast',
      name: 'chain',
      cost: chainBroadcastCost,
      run: (wire, call) => chainBroadcast(wire, rootBufferOf(wire, call), rootOf(call)),
    },
    {
      ...usual,
      operation: 'broadcast',
      name: 'hierarchical',
      supports: severalHosts,
      cost: hierarchicalBroadcastCost,
      run: (wire, call) => hierarchicalBroadcast(wire, rootBufferOf(wire, call), rootOf(call)),
    },
    {
      ...usual,
      operation: 'broadcast',
      name: 'native',
      supports: native,
      cost: treeBroadcastCost,
      run: (wire, call, options) =>
        nativeOf(options).broadcast(rootBufferOf(wire, call), rootOf(call)),
    },
  ],
  barrier: [
    {
      ...usual,
      operation: 'barrier',
      name: 'dissemination',
      beginsEarly: true,
      cost: disseminationBarrierCost,
      run: (wire) => disseminationBarrier(wire),
    },
    {
      ...usual,
      operation: 'barrier',
      name: 'hierarchical',
      beginsEarly: true,
      supports: severalHosts,
      cost: hierarchicalBarrierCost,
      run: (wire) => hierarchicalBarrier(wire),
    },
    {
      ...usual,
      operation: 'barrier',
      name: 'meeting',
      // Ranks of native groups always meet.
      supports: native,
      cost: nothing,
      run: () => Promise.resolve(),
    },
  ],
  gather: [
    {
      ...usual,
      operation: 'gather',
      name: 'direct',
      cost: directGatherCost,
      run: (wire, call) => directGather(wire, call.input, call.output, rootOf(call)),
    },
  ],
  scatter: [
    {
      ...usual,
      operation: 'scatter',
      name: 'direct',
      cost: directScatterCost,
      run: (wire, call) => directScatter(wire, call.input, call.output, rootOf(call)),
    },
  ],
  allToAll: [
    {
      ...usual,
      operation: 'allToAll',
      name: 'pairwise',
      cost: pairwiseAllToAllCost,
      run: (wire, call) => pairwiseAllToAll(wire, call.input, call.output, byteSplitsOf(call)),
    },
  ],
  split: [
    {
      ...usual,
      operation: 'split',
      name: 'meeting',
      cost: nothing,
      // What a split needs to know, the ranks have told each other when they met.
      run: () => Promise.resolve(),
    },
  ],
};
