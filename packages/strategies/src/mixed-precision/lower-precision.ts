import {
  autocast,
  currentSession,
  type LowPrecision,
  type Module,
  type Node,
  type Parameter,
  type Plan,
} from '@shardwise/core/extend';
import { castFloats } from './cast-floats.ts';
import { LowPrecisionReader } from './low-precision-reader.ts';
import { requireFloat32 } from './require-float32.ts';
import { interceptForward } from '../modules/module-method.ts';
import { standIn, StandInPlacement } from '../parameters/stand-in-placement.ts';

/**
 * Replaces the parameters with these names by ones that forward passes read in fewer bits. Throws ConfigError, before
 * anything changes, for parameters that are not f32, and for a model without forward pass.
 */
export async function lowerPrecision(
  model: Module,
  names: ReadonlySet<string>,
  policy: LowPrecision,
): Promise<void> {
  const all = model.namedParameters().filter(([name]) => names.has(name));
  for (const [, { part }] of all) requireFloat32('mixed precision of', part);
  const named = all.filter(([, { dtype }]) => dtype === 'f32');
  const { castForwardInputs = false, parameterDtype, outputDtype } = policy;
  const inputDtype = castForwardInputs ? parameterDtype : undefined;
  const lowered: StandInPlacement<LowPrecisionReader>[] = [];
  const replacements = new Map<Parameter, Parameter>();
  interceptForward(model, (forward, inputs) => {
    for (const placement of lowered)
      placement.useInForward(atFirstUse(() => placement.reader.readForStage()));
    try {
      return castFloats(forward(castFloats(inputs, inputDtype)), outputDtype);
    } finally {
      for (const placement of lowered) placement.useInForward(null);
    }
  });
  for (const [, parameter] of named) {
    const data = (await parameter.part.data()).slice();
    const reader = new LowPrecisionReader(data, parameter.part, policy);
    const placement = new StandInPlacement(reader, parameter);
    replacements.set(parameter, standIn(parameter, placement));
    parameter.dispose();
    lowered.push(placement);
  }
  model.replaceParameters(replacements);
  // Runs now, because as part of the first step it would widen all parameters before the first layer.
  await currentSession().realize([]);
}

/** Makes a leaf when it is first used, so that later layers take no memory yet. */
function atFirstUse(leafOf: () => Node): () => Node {
  let leaf: Node | null = null;
  return () => (leaf ??= leafOf());
}

/** Makes the forward passes of a model compute products in the dtype of its plan. */
export function runInAutocast(
  { dtype, outputDtype }: NonNullable<Plan['autocast']>,
  model: Module,
): void {
  interceptForward(model, (forward, inputs) =>
    castFloats(
      autocast({ dtype }, () => forward(inputs)),
      outputDtype,
    ),
  );
}
