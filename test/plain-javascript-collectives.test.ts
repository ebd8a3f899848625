// Plain JavaScript has no checker of types: a collective, a group or a mesh that is given what it does not take must say so.
import * as sw from 'shardwise';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { callOf, callRight, isRefusal, methodOf } from './support/calls.ts';
import * as takes from './support/wrong-arguments.ts';
import { type Argument, type Call, unnoticed } from './support/wrong-arguments.ts';

const { optional } = takes;
const group = sw.dist.singleGroup();
beforeEach(() => sw.setRank({ device: interpreter(), mesh: new sw.dist.LineMesh('dp', group) }));

const x = takes.tensor(sw.ones([2, 2]));
const axis = takes.text('dp');
const dim = takes.whole(0);
const root = takes.whole(0);
const op = takes.text('sum');
const limits = optional(takes.options({ timeoutMs: 1000 }));
const bytes = (): sw.dist.TypedBytes => ({ bytes: new Uint8Array(16), dtype: 'f32' });
/** Values, tensors and bytes that are none are no buffers. */
const buffer = (): Argument => ({
  given: bytes(),
  wrong: [
    null,
    1,
    true,
    '1',
    {},
    new Float32Array(4),
    sw.ones([4]),
    { bytes: new Float32Array(4), dtype: 'f32' },
    { ...bytes(), dtype: 'float32' },
  ],
});
const buffers = (): Argument => ({
  given: [bytes()],
  wrong: [null, {}, 1, '1', [1], [null], bytes()],
});
const theGroup: Argument = {
  given: group,
  wrong: [null, {}, 1, true, '1', new sw.dist.LineMesh('dp', group)],
};
/** A function is no plain data. */
const value: Argument = { given: 1, wrong: [() => 1], isOptional: true };
const axes = (): Argument => ({
  given: [{ name: 'dp', size: 1 }],
  wrong: [
    null,
    {},
    1,
    'dp',
    ['dp'],
    [1],
    [null],
    [{ name: 'dp' }],
    [{ dp: 1 }],
    [{ name: 'dp', size: '1' }],
    [{ name: 1, size: 1 }],
    { dp: 1 },
  ],
});
const layout = (): Argument => ({
  given: sw.dist.layout.layoutOf(['dp', null]),
  wrong: [null, {}, 1, 'dp', ['dp', null], { dims: 'dp' }],
});
const names: Argument = { given: ['dp'], wrong: [null, 'dp', 1, [1]] };
const line = new sw.dist.LineMesh('dp', group);

const calls: readonly (readonly [string, Call])[] = [
  ['allReduce', callOf(sw.dist.allReduce, x, axis, optional(takes.options({ reduce: 'avg' })))],
  ['allGather', callOf(sw.dist.allGather, x, axis, dim, optional(takes.text('invariant')))],
  [
    'reduceScatter',
    callOf(
      sw.dist.reduceScatter,
      x,
      axis,
      dim,
      optional(takes.text('avg')),
      optional(takes.whole(0)),
    ),
  ],
  ['allToAll', callOf(sw.dist.allToAll, x, axis, dim, takes.whole(1))],
  ['broadcast', callOf(sw.dist.broadcast, x, axis, optional(root))],
  ['reduce', callOf(sw.dist.reduce, x, axis, optional(root))],
  ['sendRecv', callOf(sw.dist.sendRecv, x, axis, takes.list([0]))],
  ['localChunk', callOf(sw.dist.localChunk, x, axis, dim)],
  [
    'reinterpret',
    callOf(sw.dist.reinterpret, x, axis, takes.text('varying'), takes.text('partial')),
  ],
  ['group.allReduce', methodOf(() => group, 'allReduce', buffer(), op, limits)],
  ['group.allGather', methodOf(() => group, 'allGather', buffer(), buffer(), limits)],
  ['group.reduceScatter', methodOf(() => group, 'reduceScatter', buffer(), buffer(), op, limits)],
  ['group.allToAll', methodOf(() => group, 'allToAll', buffer(), buffer(), limits)],
  ['group.broadcast', methodOf(() => group, 'broadcast', buffer(), root, limits)],
  ['group.reduce', methodOf(() => group, 'reduce', buffer(), root, op, limits)],
  ['group.gather', methodOf(() => group, 'gather', buffer(), buffer(), root, limits)],
  ['group.scatter', methodOf(() => group, 'scatter', buffer(), buffer(), root, limits)],
  ['group.barrier', methodOf(() => group, 'barrier', limits)],
  [
    'group.split',
    methodOf(
      () => group,
      'split',
      optional({ given: 0, wrong: [{}, '1', true, 0.5] }),
      takes.whole(0),
      limits,
    ),
  ],
  ['allGatherObject', callOf(sw.dist.allGatherObject, theGroup, value, limits)],
  ['broadcastObject', callOf(sw.dist.broadcastObject, theGroup, value, root, limits)],
  ['gatherObject', callOf(sw.dist.gatherObject, theGroup, value, root, limits)],
  [
    'scatterObject',
    callOf(
      sw.dist.scatterObject,
      theGroup,
      { given: [1], wrong: [() => 1, 1, null, {}, [1, 2]] },
      root,
      limits,
    ),
  ],
  ['monitoredBarrier', callOf(sw.dist.monitoredBarrier, theGroup, limits)],
  ['allReduceCoalesced', callOf(sw.dist.allReduceCoalesced, theGroup, buffers(), op, limits)],
  [
    'allGatherCoalesced',
    callOf(sw.dist.allGatherCoalesced, theGroup, buffers(), buffers(), limits),
  ],
  [
    'reduceScatterCoalesced',
    callOf(sw.dist.reduceScatterCoalesced, theGroup, buffers(), buffers(), op, limits),
  ],
  ['broadcastCoalesced', callOf(sw.dist.broadcastCoalesced, theGroup, buffers(), root, limits)],
  [
    'batchSendRecv',
    callOf(
      sw.dist.batchSendRecv,
      theGroup,
      {
        given: [],
        wrong: [null, {}, 1, [1], [null], [{ operation: 'surprise', buffer: bytes(), peer: 0 }]],
      },
      limits,
    ),
  ],
  ['newGroup', callOf(sw.dist.newGroup, theGroup, takes.list([0]), limits)],
  [
    'newGroups',
    callOf(
      sw.dist.newGroups,
      theGroup,
      { given: [[0]], wrong: [null, {}, 1, [0], ['0'], [[0.5]], [[null]]] },
      limits,
    ),
  ],
  ['limitCalls', callOf(sw.dist.transports.limitCalls, theGroup, takes.setting(600_000))],
  ['createMesh', callOf(sw.dist.createMesh, theGroup, axes(), limits)],
  ['new MeshRanks', callOf((...given) => Reflect.construct(sw.dist.MeshRanks, given), axes())],
  [
    'meshOrder',
    callOf(
      sw.dist.meshOrder,
      { given: 'tp-dp', wrong: [null, {}, 1, 'tp--dp'] },
      {
        given: { tp: 2, dp: 2 },
        wrong: [null, 1, 'x', true, { tp: '2' }, { tp: 0.5 }, { surprise: 2 }, { tp: 0 }],
      },
    ),
  ],
  [
    'meshFromHosts',
    callOf(
      sw.dist.meshFromHosts,
      { given: [0, 0, 1, 1], wrong: [null, {}, 1, '0', [null, null], ['a', 'b']] },
      optional(takes.options({ inner: 'tp' })),
    ),
  ],
  ['mesh.group', methodOf(() => line, 'group', axis)],
  ['mesh.coordinate', methodOf(() => line, 'coordinate', axis)],
  [
    'setRank',
    callOf(sw.setRank, {
      given: { device: interpreter() },
      wrong: [
        null,
        1,
        'x',
        {},
        { device: 1 },
        { device: interpreter(), mesh: {} },
        { device: interpreter(), mesh: group },
        interpreter(),
        { device: interpreter(), surprise: 1 },
      ],
    }),
  ],
  ['distributeTensor', callOf(sw.dist.layout.distributeTensor, x, layout())],
  ['fromLocal', callOf(sw.dist.layout.fromLocal, x, layout(), optional(takes.list([2, 2])))],
  [
    'layoutOf',
    callOf(
      sw.dist.layout.layoutOf,
      { given: ['dp', null], wrong: [null, {}, 1, 'dp', [1], [[1]]] },
      optional(names),
    ),
  ],
];

describe('a collective', () => {
  it.each(calls)('%s refuses what it does not take', async (_, call) => {
    await callRight(call);
    expect(await unnoticed({ ...call, isOpen: true }, isRefusal)).toEqual([]);
  });

  it.each(['send', 'recv'])('%s refuses what it does not take', async (name) => {
    const [first, second] = sw.dist.transports
      .createLoopbackTransports(2)
      .map((transport) => sw.dist.createGroup(transport));
    if (first === undefined || second === undefined) throw new RangeError('there are two');
    const options = optional(takes.options({ tag: 1 }));
    const call = methodOf(() => first, name, buffer(), takes.whole(1), options);
    sw.dist.transports.limitCalls(first, 1000);
    const isRefusedAtOnce = (error: unknown): boolean =>
      sw.ShardwiseError.isInstance(error) && !(error instanceof sw.CollectiveError);
    expect(await unnoticed({ ...call, isOpen: true }, isRefusedAtOnce)).toEqual([]);
    first.close();
    second.close();
  });

  it('no two ranks send to the same one', () => {
    const pair = {
      axes: [{ name: 'dp', size: 2 }],
      group: () => ({ ...group, size: 2 }),
      coordinate: () => 0,
    };
    sw.setRank({ device: interpreter(), mesh: pair });
    expect(() => sw.dist.sendRecv(sw.ones([2]), 'dp', [1, 1])).toThrow(
      "a value that is not a list of 2 different ranks of 'dp', or -1 for none",
    );
    expect(() => sw.dist.sendRecv(sw.ones([2]), 'dp', [-1, -1])).not.toThrow();
    expect(() => sw.dist.broadcast(sw.ones([2]), 'dp', 2)).toThrow('a whole number from 0 to 1');
  });
});
