import { parseArgs } from 'node:util';
import { mpiGroup } from '@shardwise/collectives/node';
import type { ProcessGroup, TypedBytes } from '@shardwise/core/spec';

// This is the loop of mpi-collectives.c with the group over MPI. It takes the same arguments, and rank 0 prints the
// same line:
//
//   mpirun -n 2 node --conditions=@shardwise/source mpi-group.ts --operation allReduce --bytes 1048576 --iterations 100

const { values } = parseArgs({
  options: {
    operation: { type: 'string', default: 'allReduce' },
    bytes: { type: 'string', default: '1048576' },
    iterations: { type: 'string', default: '20' },
  },
});

type Run = (group: ProcessGroup, input: TypedBytes, output: TypedBytes) => Promise<void>;

const operations: Readonly<Record<string, Run>> = {
  allReduce: (group, input) => group.allReduce(input, 'sum'),
  reduceScatter: (group, input, output) => group.reduceScatter(input, partOf(output, group), 'sum'),
  allGather: (group, input, output) => group.allGather(partOf(input, group), output),
  allToAll: (group, input, output) => group.allToAll(input, output),
  broadcast: (group, input) => group.broadcast(input, 0),
  reduce: (group, input) => group.reduce(input, 0, 'sum'),
  barrier: (group) => group.barrier(),
  // A message goes there and back, because one way can't be timed with two clocks.
  send: async (group, input, output) => {
    if (group.rank === 0) {
      await group.send(input, 1);
      await group.recv(output, 1);
    } else if (group.rank === 1) {
      await group.recv(output, 0);
      await group.send(input, 0);
    }
  },
};

function partOf({ bytes, dtype }: TypedBytes, { size }: ProcessGroup): TypedBytes {
  return { bytes: bytes.subarray(0, bytes.byteLength / size), dtype };
}

const run = operations[values.operation];
if (run === undefined) throw new RangeError(`No operation is called ${values.operation}`);
const group = await mpiGroup();
const bytes = Math.floor(Number(values.bytes) / (4 * group.size)) * 4 * group.size;
const iterations = Number(values.iterations);
const warmups = iterations < 10 ? 2 : Math.floor(iterations / 5);
const [input, output] = [0, 1].map((): TypedBytes => {
  const memory = new Uint8Array(new ArrayBuffer(bytes));
  // The system maps pages that are only read to one page of zeros, so the memory is written.
  memory.fill(0);
  return { bytes: memory, dtype: 'f32' };
});
if (input === undefined || output === undefined) throw new RangeError('No buffers');
const seconds: number[] = [];
for (let i = -warmups; i < iterations; i++) {
  await group.barrier();
  const start = performance.now();
  await run(group, input, output);
  if (i >= 0) seconds.push((performance.now() - start) / 1000);
}
if (group.rank === 0) {
  const { operation } = values;
  process.stdout.write(`${JSON.stringify({ operation, ranks: group.size, bytes, seconds })}\n`);
}
group.close();
