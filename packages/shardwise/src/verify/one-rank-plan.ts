import { nn } from '@shardwise/core';
import {
  concat,
  Dropout,
  type ModelSpec,
  type Module,
  randomState,
  replicated,
  setRandomState,
  type Strategy,
  Tensor,
  withBatchPart,
} from '@shardwise/core/extend';
import {
  forEachTensor,
  mapTensors,
  type ModelPlan,
  type PassHooks,
  type PlanContext,
  Step,
  type StepKind,
  wrapMethod,
} from '@shardwise/strategies';
import type { RecordedPass } from './records.ts';

/** How one rank passes its batches. */
export interface OnePass {
  /** What one rank does in the place of the strategy's pass. */
  around(run: (inputs: readonly unknown[]) => unknown, inputs: readonly unknown[]): unknown;
  /** Called when the plan has been applied. */
  ready(context: PlanContext): Promise<void>;
}

const onOneRank: StepKind<OnePass> = {
  name: 'one rank',
  collectives: () => [],
  async apply(pass, context) {
    await pass.ready(context);
    context.hooks.push({ forward: passHook(pass) });
  },
};

function passHook(pass: OnePass): NonNullable<PassHooks['forward']> {
  return forward;

  function forward<Inputs extends readonly unknown[], Output>(
    run: (...inputs: Inputs) => Output,
    inputs: Inputs,
  ): Output;
  function forward(
    run: (...inputs: readonly unknown[]) => unknown,
    inputs: readonly unknown[],
  ): unknown {
    return pass.around((own) => run(...own), inputs);
  }
}

/** A plan of nothing: the model as it is, on one rank. No code of the strategy takes part. */
export function oneRankPlan(spec: ModelSpec, pass: OnePass): ModelPlan {
  return {
    strategy: 'one rank',
    axes: [],
    batch: { dims: [[]], partial: [] },
    parameters: spec.parameters.map((parameter) => {
      const layout = replicated(parameter.shape);
      return { ...parameter, parameter: layout, gradient: layout, optimizer: layout };
    }),
    buffers: spec.buffers ?? [],
    steps: [new Step(onOneRank, pass)],
  };
}

/** The loss that a strategy computes in its passes, of the model's output and the targets. Null: it computes none. */
export function lossOf(
  strategy: Strategy,
): ((output: unknown, targets: readonly unknown[]) => unknown) | null {
  if (!('loss' in strategy) || typeof strategy.loss !== 'function') return null;
  const { loss } = strategy;
  return (output, targets) => Reflect.apply(loss, undefined, [output, ...targets]);
}

/** The number of targets that a strategy's passes take after the inputs of the model. */
export function targetCount(strategy: Strategy): number {
  if (!('loss' in strategy) || typeof strategy.loss !== 'function') return 0;
  return Math.max(0, strategy.loss.length - 1);
}

/**
 * Passes the parts of a batch one after the other, each with the random numbers that its rank drew, and joins what they
 * return. `onPart` is called before each. `shapes` are the shapes of the inputs of each rank's pass.
 */
export function byParts(
  run: (inputs: readonly unknown[]) => unknown,
  inputs: readonly unknown[],
  passes: readonly RecordedPass[],
  {
    microbatches,
    onPart,
  }: { readonly microbatches: number; onPart: (part: number | null) => void },
): unknown {
  const before = randomState();
  const starts: number[] = [];
  const outputs = passes.map((pass, part) => {
    // Every rank drew from the same state on.
    setRandomState(before);
    onPart(part);
    let tensor = 0;
    const own = inputs.map((input) =>
      mapTensors(input, (value) => {
        const at = tensor++;
        const [rows = 0] = pass.shapes[at] ?? [];
        const start = starts[at] ?? 0;
        starts[at] = start + rows;
        const isWhole = value.ndim === 0 || isConstant(passes, at, value);
        return isWhole ? value : value.slice(0, start, start + rows);
      }),
    );
    const draw = (each: readonly unknown[]): unknown =>
      passes.length === 1 ? run(each) : withBatchPart(part, () => run(each));
    const output = microbatches < 2 ? draw(own) : inMicrobatches(own, microbatches, draw);
    return { output, rows: pass.shapes[0]?.[0] ?? 1 };
  });
  onPart(null);
  return joinOutputs(outputs);
}

/**
 * Has each dropout draw for the parts of the batch one after the other, as byParts does for whole passes. It is for
 * models that need the rows of all parts at once, as batch norm over all ranks does. `passesNow` returns the passes of
 * the ranks, or null outside of passes that draw.
 */
export function dropByParts(model: Module, passesNow: () => readonly RecordedPass[] | null): void {
  for (const [, module] of model.namedModules()) {
    if (!(module instanceof Dropout)) continue;
    wrapMethod(module, 'forward', (inputs, forward) => {
      const passes = passesNow();
      const [x] = inputs;
      if (passes === null || passes.length < 2 || !(x instanceof Tensor)) return forward(inputs);
      const rowsOf = ({ shapes }: RecordedPass): number => shapes[0]?.[0] ?? 0;
      const rows = passes.reduce((sum, pass) => sum + rowsOf(pass), 0);
      const each = (x.shape[0] ?? 0) / rows;
      const before = randomState();
      let start = 0;
      const parts = passes.map((pass, part) => {
        setRandomState(before);
        const first = start;
        start += each * rowsOf(pass);
        const own = x.slice(0, first, start);
        return { output: withBatchPart(part, () => forward([own])), rows: rowsOf(pass) };
      });
      return joinOutputs(parts);
    });
  }
}

/** Whether a model needs the rows of all parts of the batch at once. */
export function mixesRows(model: Module): boolean {
  return model.namedModules().some(([, module]) => module instanceof nn.SyncBatchNorm);
}

/** Whether an input is the same on all ranks, such as a mask, so that each part has all of it. */
function isConstant(passes: readonly RecordedPass[], at: number, { shape }: Tensor): boolean {
  const rows = passes.reduce((sum, { shapes }) => sum + (shapes[at]?.[0] ?? 0), 0);
  return passes.length > 1 && shape[0] !== rows;
}

function inMicrobatches(
  inputs: readonly unknown[],
  most: number,
  run: (inputs: readonly unknown[]) => unknown,
): unknown {
  const tensors: Tensor[] = [];
  forEachTensor(inputs, (each) => tensors.push(each));
  const rows = tensors.find(({ ndim }) => ndim > 0)?.shape[0] ?? 1;
  const count = Math.max(1, Math.min(most, rows));
  const [least, more] = [Math.floor(rows / count), rows % count];
  let start = 0;
  const outputs = Array.from({ length: count }, (_, index) => {
    const first = start;
    start += least + (index < more ? 1 : 0);
    const stop = start;
    const cut = (each: Tensor): Tensor => (each.ndim === 0 ? each : each.slice(0, first, stop));
    return { output: run(inputs.map((input) => mapTensors(input, cut))), rows: stop - first };
  });
  return joinOutputs(outputs);
}

/** Joins rows, and averages scalars by the numbers of rows. */
function joinOutputs(
  outputs: readonly { readonly output: unknown; readonly rows: number }[],
): unknown {
  const [first] = outputs;
  if (first === undefined || outputs.length === 1) return first?.output;
  const lists = outputs.map(({ output }) => {
    const tensors: Tensor[] = [];
    forEachTensor(output, (each) => tensors.push(each));
    return tensors;
  });
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
