import { dtypes, type DType, type ReduceOp } from '@shardwise/core/spec';
import type { GroupCall } from '../src/call/calls.ts';
import type { Operation } from '../src/call/record.ts';
import { CallCommunicator } from '../src/group/call-communicator.ts';
import { groupEnd } from '../src/group/group-end.ts';
import type { Algorithm } from '../src/group/selection/algorithm.ts';
import { reduceElements } from '../src/reduce/reduce-elements.ts';
import type { Reducer } from '../src/reduce/reducer.ts';
import { createLoopbackTransports, type Traffic } from '../src/transports/loopback.ts';

/** One call by all ranks of a world, with one algorithm. */
export interface Run {
  readonly algorithm: Algorithm;
  /** The number of each rank's host. */
  readonly hosts: readonly number[];
  readonly dtype: DType;
  readonly op: ReduceOp;
  /** The n in the operation's shape line. */
  readonly elements: number;
  readonly root: number;
  /** `splits[i][j]` is the number of elements that go from rank i to rank j. */
  readonly splits: readonly (readonly number[])[];
  /** Returns value number `index` of a rank. */
  readonly valueAt: (rank: number, index: number) => number;
}

export interface Outcome {
  readonly inputs: readonly Uint8Array[];
  /** The bytes where each rank's result goes, after the call. */
  readonly outputs: readonly Uint8Array[];
  readonly traffic: readonly Traffic[];
}

/** Returns the numbers of elements that an operation takes and gives on `rank`, and whether it works in place. */
function elementsOf(
  { algorithm: { operation }, elements: n, root, splits }: Run,
  rank: number,
  size: number,
): { readonly input: number; readonly output: number; readonly inPlace: boolean } {
  const sum = (counts: readonly number[]): number => counts.reduce((a, b) => a + b, 0);
  const inPlace = (count: number) => ({ input: count, output: count, inPlace: true });
  const moved = (input: number, output: number) => ({ input, output, inPlace: false });
  const shapes = {
    allReduce: () => inPlace(n),
    reduce: () => inPlace(n),
    broadcast: () => inPlace(n),
    allGather: () => moved(n, n * size),
    reduceScatter: () => moved(n * size, n),
    gather: () => moved(n, rank === root ? n * size : 0),
    scatter: () => moved(rank === root ? n * size : 0, n),
    allToAll: () => moved(sum(splits[rank] ?? []), sum(splits.map((row) => row[rank] ?? 0))),
    barrier: () => inPlace(0),
    split: () => inPlace(0),
  } satisfies Record<Operation, () => unknown>;
  return shapes[operation]();
}

export async function play(run: Run, reducer: Reducer): Promise<Outcome> {
  const { algorithm, hosts, dtype, op, root, splits } = run;
  const { operation } = algorithm;
  const size = hosts.length;
  const transports = createLoopbackTransports(size);
  const members = transports.map((_, rank) => rank);
  const { bytes: elementBytes } = dtypes[dtype];
  const shapes = members.map((rank) => elementsOf(run, rank, size));
  const inputs = shapes.map(({ input }, rank) =>
    encode(
      dtype,
      Array.from({ length: input }, (_, index) => run.valueAt(rank, index)),
    ),
  );
  const buffers = inputs.map((input) => input.slice());
  const outputs = shapes.map(({ output, inPlace }, rank) =>
    inPlace ? buffers[rank]! : new Uint8Array(output * elementBytes),
  );
  const reduces = operation === 'allReduce' || operation === 'reduce';
  const record = {
    operation,
    dtype: operation === 'barrier' ? undefined : dtype,
    elements: run.elements,
    root,
    reduce: reduces || operation === 'reduceScatter' ? op : undefined,
    pass: undefined,
    identity: undefined,
    member: undefined,
  };
  await Promise.all(
    transports.map((transport, rank) => {
      const call: GroupCall = {
        record: {
          ...record,
          splits:
            operation === 'allToAll'
              ? { input: splits[rank]!, output: splits.map((row) => row[rank]!) }
              : undefined,
        },
        input: buffers[rank]!,
        output: outputs[rank]!,
      };
      const communicator = new CallCommunicator(groupEnd({ transport, members, hosts, id: 0 }), 0);
      return algorithm.run(communicator, call, { reducer, agreed: Promise.resolve() });
    }),
  );
  return { inputs, outputs, traffic: transports.map(({ traffic }) => traffic) };
}

/** Returns what each rank must have in the end. Reductions add in rank order. */
export function expectedOf(run: Run, inputs: readonly Uint8Array[]): readonly Uint8Array[] {
  const { algorithm, dtype, op, elements, root, splits } = run;
  const partBytes = elements * dtypes[dtype].bytes;
  const part = (bytes: Uint8Array, rank: number): Uint8Array =>
    bytes.subarray(rank * partBytes, (rank + 1) * partBytes);
  const nothing = new Uint8Array(0);
  const total = (): Uint8Array => {
    const result = new Uint8Array(inputs[0]!.byteLength);
    reduceElements(inputs, [result], dtype, op);
    return result;
  };
  const cell = (from: number, to: number): Uint8Array => {
    const before = splits[from]!.slice(0, to).reduce((a, b) => a + b, 0);
    const start = before * dtypes[dtype].bytes;
    return inputs[from]!.subarray(start, start + splits[from]![to]! * dtypes[dtype].bytes);
  };
  const expected: Record<Operation, () => readonly Uint8Array[]> = {
    allReduce: () => inputs.map(total),
    reduce: () => inputs.map((own, rank) => (rank === root ? total() : own)),
    reduceScatter: () => inputs.map((_, rank) => part(total(), rank)),
    broadcast: () => inputs.map(() => inputs[root]!),
    allGather: () => inputs.map(() => Buffer.concat(inputs)),
    gather: () => inputs.map((_, rank) => (rank === root ? Buffer.concat(inputs) : nothing)),
    scatter: () => inputs.map((_, rank) => part(inputs[root]!, rank)),
    allToAll: () => inputs.map((_, to) => Buffer.concat(inputs.map((__, from) => cell(from, to)))),
    barrier: () => inputs,
    split: () => inputs,
  };
  return expected[algorithm.operation]();
}

function encode(dtype: DType, values: readonly number[]): Uint8Array {
  const bytes = new Uint8Array(values.length * dtypes[dtype].bytes);
  const whole = (value: number): bigint => BigInt(Math.trunc(value));
  const writers: Record<DType, () => void> = {
    f64: () => new Float64Array(bytes.buffer).set(values),
    f32: () => new Float32Array(bytes.buffer).set(values),
    f16: () => new Float16Array(bytes.buffer).set(values),
    // The values have few enough bits that the lower half of an f32 is zero.
    bf16: () => {
      const words = new Uint16Array(Float32Array.from(values).buffer);
      new Uint16Array(bytes.buffer).set(words.filter((_, index) => index % 2 === 1));
    },
    i64: () => new BigInt64Array(bytes.buffer).set(values.map(whole)),
    i32: () => new Int32Array(bytes.buffer).set(values),
    u8: () => bytes.set(values),
    bool: () => bytes.set(values.map((value) => value & 1)),
  };
  writers[dtype]();
  return bytes;
}
