import {
  lowered,
  type Module,
  type Parameter,
  redistributeOver,
  type Tensor,
  withCoordinateKeys,
} from '@shardwise/core/extend';
import type { Method } from '../modules/module-method.ts';
import { fieldsOf, type ParameterField } from '../modules/parameter-fields.ts';
import { sendingAgain } from './gather-again.ts';
import type {
  ActivationChange,
  AxisPlace,
  ParallelStyle,
  StyledComputation,
} from './parallel-style.ts';
import { withReplicatedParameters } from './replicated-parameters.ts';
import { requireTensor, wrapMethod } from './wrap-method.ts';

/**
 * Makes a module run by a style on the ranks of an axis: inputs and outputs change their layouts, and the gradients of
 * parameters that all ranks have, and each uses in its own way, are summed. Whoever calls the module puts this rank's parts
 * of the other parameters in their fields.
 */
export function installStyle(
  style: ParallelStyle,
  module: Module,
  place: AxisPlace,
  path: string,
): void {
  for (const [name, own] of module.namedModules()) {
    const each = style.modules?.[name];
    if (each !== undefined) installStyle(each, own, place, `${path}.${name}`);
  }
  const computation = style.install?.(module, place, path) ?? {};
  const replicated = fieldsOf(module, replicatedParameters(style, module, place.axis));
  for (const [method, changes] of Object.entries(style.inputs)) {
    const layer = { style, changes, computation, replicated, place, path };
    wrapMethod(module, method, (inputs, run) => runMethod(layer, inputs, run));
  }
}

interface StyledMethod {
  readonly style: ParallelStyle;
  readonly changes: readonly (ActivationChange | undefined)[];
  readonly computation: StyledComputation;
  readonly replicated: readonly ParameterField[];
  readonly place: AxisPlace;
  readonly path: string;
}

/** Returns the parameters of a module that all ranks have and each uses in its own way. */
function replicatedParameters(
  { parameters, others = 'invariant' }: ParallelStyle,
  module: Module,
  axis: string,
): ReadonlySet<Parameter> {
  const found = module.namedParameters().filter(([name, { part }]) => {
    const layout = parameters[name] ?? others;
    return layout === 'uncut' ? !part.shardedOver.includes(axis) : layout === 'replicate';
  });
  return new Set(found.map(([, parameter]) => parameter));
}

function runMethod(layer: StyledMethod, inputs: readonly unknown[], method: Method): unknown {
  const { style, computation, replicated, place, path } = layer;
  const { output, drawsOwn = false, gatherAgain = false } = style;
  const { axis, rank } = place;
  const compute = (): unknown => {
    const own = changedInputs(layer, inputs);
    const run = (): unknown =>
      computation.run === undefined ? method(own) : computation.run(own, method);
    return drawsOwn ? withCoordinateKeys(rank, run) : run();
  };
  return withReplicatedParameters(replicated, axis, () => {
    const result = gatherAgain ? sendingAgain(compute) : compute();
    if (output === null) return result;
    const changed = redistributeOver(requireTensor(result, path), axis, output.from, output.to);
    const added = computation.added?.() ?? null;
    return added === null ? changed : changed.add(lowered(added));
  });
}

/** Changes the layouts of inputs. A tensor that is passed several times, as keys and values may be, is sent once. */
function changedInputs(
  { style, changes, place: { axis }, path }: StyledMethod,
  inputs: readonly unknown[],
): readonly unknown[] {
  const sent = new Map<ActivationChange, Map<unknown, Tensor>>();
  return inputs.map((input, index) => {
    const change = changes[index];
    if (change === undefined) return input;
    const known = sent.get(change) ?? new Map<unknown, Tensor>();
    sent.set(change, known);
    const before = known.get(input);
    if (before !== undefined) return before;
    const x = requireTensor(input, path);
    const operand = style.kind.multiplies === true ? lowered(x) : x;
    const own = redistributeOver(operand, axis, change.from, change.to);
    known.set(input, own);
    return own;
  });
}
