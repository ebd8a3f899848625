import {
  concat,
  randomState,
  setRandomState,
  type Tensor,
  withBatchPart,
} from '@shardwise/core/extend';
import { forEachTensor, mapTensors } from '@shardwise/strategies';
import type { RecordedPass } from './records.ts';

type Inputs = readonly unknown[];

/** What one rank passes one after the other. */
export interface PartsOptions {
  /** The most microbatches of a pass. Less than 2: a pass is not cut. */
  readonly microbatches: number;
  /** Called before each part and microbatch, and with nulls after the last one. */
  readonly onPart: (part: number | null, microbatch: number | null) => void;
}

/**
 * Passes the parts of a batch one after the other, each with the random numbers that its rank drew, and joins what they
 * return. The shapes of `passes` are those of the inputs of each rank's pass.
 */
export function byParts(
  run: (inputs: Inputs) => unknown,
  inputs: Inputs,
  passes: readonly RecordedPass[],
  { microbatches, onPart }: PartsOptions,
): unknown {
  const before = randomState();
  const outputs = partsOf(inputs, passes).map((own, part) => {
    // Every rank drew from the same state on.
    setRandomState(before);
    const draw = (each: Inputs): unknown =>
      passes.length === 1 ? run(each) : withBatchPart(part, () => run(each));
    onPart(part, null);
    const output =
      microbatches < 2
        ? draw(own)
        : joinOutputs(
            cutIntoMicrobatches(own, microbatches).map((each, microbatch) => {
              onPart(part, microbatch);
              return { output: draw(each.inputs), rows: each.rows };
            }),
          );
    return { output, rows: rowsOf(passes[part]) };
  });
  onPart(null, null);
  return joinOutputs(outputs);
}

/**
 * Passes the microbatches of a batch one after the other, each with the rows of all parts. `run` is given the passes of
 * the ranks for the microbatch.
 */
export function byMicrobatches(
  run: (inputs: Inputs, passes: readonly RecordedPass[]) => unknown,
  inputs: Inputs,
  passes: readonly RecordedPass[],
  { microbatches, onPart }: PartsOptions,
): unknown {
  const cut = partsOf(inputs, passes).map((own) => cutIntoMicrobatches(own, microbatches));
  const outputs: { readonly output: unknown; readonly rows: number }[][] = cut.map(() => []);
  for (const microbatch of (cut[0] ?? []).keys()) {
    onPart(null, microbatch);
    const own = cut.flatMap((ofPart) => ofPart[microbatch] ?? []);
    const ofRanks = own.flatMap((each, part) => {
      const pass = passes[part];
      return pass === undefined ? [] : [{ ...pass, shapes: shapesOf(each.inputs) }];
    });
    const joined = joinInputs(
      own.map((each) => each.inputs),
      passes,
      inputs,
    );
    const output = run(joined, ofRanks);
    const total = own.reduce((sum, { rows }) => sum + rows, 0);
    let start = 0;
    for (const [part, { rows }] of own.entries()) {
      const [first, stop] = [start, start + rows];
      const cutRows = (each: Tensor): Tensor => {
        const perRow = (each.shape[0] ?? 0) / total;
        return each.ndim === 0 ? each : each.slice(0, first * perRow, stop * perRow);
      };
      outputs[part]?.push({ output: mapTensors(output, cutRows), rows });
      start = stop;
    }
  }
  onPart(null, null);
  return joinOutputs(outputs.flat());
}

/** The inputs of the pass of each part. */
function partsOf(inputs: Inputs, passes: readonly RecordedPass[]): readonly Inputs[] {
  const starts: number[] = [];
  return passes.map((pass) => {
    let tensor = 0;
    return inputs.map((input) =>
      mapTensors(input, (value) => {
        const at = tensor++;
        const [rows = 0] = pass.shapes[at] ?? [];
        const start = starts[at] ?? 0;
        starts[at] = start + rows;
        return isConstant(passes, at, value) ? value : value.slice(0, start, start + rows);
      }),
    );
  });
}

/** Joins the inputs of parts. Those that are the same on all ranks stay what they are in `whole`. */
function joinInputs(
  parts: readonly Inputs[],
  passes: readonly RecordedPass[],
  whole: Inputs,
): Inputs {
  const lists = parts.map(tensorsIn);
  let at = 0;
  return whole.map((input) =>
    mapTensors(input, (value) => {
      const index = at++;
      const tensors = lists.flatMap((list) => list[index] ?? []);
      const [first = value] = tensors;
      return tensors.length < 2 || isConstant(passes, index, value) ? first : concat(tensors, 0);
    }),
  );
}

/** Whether an input is the same on all ranks, such as a mask, so that each part has all of it. */
function isConstant(passes: readonly RecordedPass[], at: number, { shape }: Tensor): boolean {
  if (shape.length === 0) return true;
  const rows = passes.reduce((sum, { shapes }) => sum + (shapes[at]?.[0] ?? 0), 0);
  return passes.length > 1 && shape[0] !== rows;
}

function cutIntoMicrobatches(
  inputs: Inputs,
  most: number,
): readonly { readonly inputs: Inputs; readonly rows: number }[] {
  const rows = tensorsIn(inputs).find(({ ndim }) => ndim > 0)?.shape[0] ?? 1;
  const count = Math.max(1, Math.min(most, rows));
  const [least, more] = [Math.floor(rows / count), rows % count];
  let start = 0;
  return Array.from({ length: count }, (_, index) => {
    const first = start;
    start += least + (index < more ? 1 : 0);
    const stop = start;
    const cut = (each: Tensor): Tensor => (each.ndim === 0 ? each : each.slice(0, first, stop));
    return { inputs: inputs.map((input) => mapTensors(input, cut)), rows: stop - first };
  });
}

/** The rows of the first input of a pass. */
export function rowsOf(pass: RecordedPass | undefined): number {
  return pass?.shapes[0]?.[0] ?? 1;
}

function shapesOf(inputs: Inputs): readonly (readonly number[])[] {
  return tensorsIn(inputs).map(({ shape }) => [...shape]);
}

function tensorsIn(value: unknown): readonly Tensor[] {
  const tensors: Tensor[] = [];
  forEachTensor(value, (each) => tensors.push(each));
  return tensors;
}

/** Joins rows, and averages scalars by the numbers of rows. */
export function joinOutputs(
  outputs: readonly { readonly output: unknown; readonly rows: number }[],
): unknown {
  const [first] = outputs;
  if (first === undefined || outputs.length === 1) return first?.output;
  const lists = outputs.map(({ output }) => tensorsIn(output));
  const rows = outputs.reduce((sum, each) => sum + each.rows, 0);
  let at = 0;
  return mapTensors(first.output, () => {
    const tensors = lists.flatMap((list) => list[at] ?? []);
    at++;
    if ((tensors[0]?.ndim ?? 0) > 0) return concat(tensors, 0);
    const shares = tensors.map((each, index) => each.mul((outputs[index]?.rows ?? 0) / rows));
    return shares.reduce((sum, each) => sum.add(each));
  });
}
