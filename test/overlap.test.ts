import { createGroup, createLoopbackTransports } from '@shardwise/collectives';
import { allReduce, LineMesh, setRank, tensor, type Backend } from '@shardwise/core';
import { interpreter } from '@shardwise/testing';
import { expect, it } from 'vitest';

/** Reports for each run whether communication may go on during it. */
function watched(onRun: (overlap: boolean) => void): Backend {
  const backend = interpreter();
  return {
    ...backend,
    compile: async (program) => {
      const executable = await backend.compile(program);
      return {
        ...executable,
        run: async (inputs, outputs, options) => {
          onRun(options?.overlap ?? false);
          await executable.run(inputs, outputs, options);
        },
      };
    },
  };
}

it('a program is told to let communication go on exactly while a collective is under way', async () => {
  const [first, second] = createLoopbackTransports(2).map((transport) =>
    createGroup(transport, { verify: false }),
  );
  if (first === undefined || second === undefined) throw new Error();
  const peer = { bytes: new Uint8Array(Float32Array.of(10, 20).buffer), dtype: 'f32' } as const;
  const overlaps: boolean[] = [];
  const device = watched((overlap) => {
    overlaps.push(overlap);
    // The all-reduce can't end before this point.
    if (overlap) void second.allReduce(peer, 'sum');
  });
  setRank({ device, mesh: new LineMesh('dp', first) });

  const x = tensor([1, 2]);
  const reduced = allReduce(x.mul(2), 'dp');
  const meanwhile = x.add(5).retain();
  const [sum, other] = [reduced.add(meanwhile), meanwhile];
  expect([...(await sum.data())]).toEqual([10 + 2 + 6, 20 + 4 + 7]);
  expect([...(await other.data())]).toEqual([6, 7]);
  expect(overlaps).toEqual([false, true, false]);
});
