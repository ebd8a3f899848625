import { autocast, type Module, type Plan } from '@shardwise/core/extend';
import { interceptForward } from '../modules/intercept-forward.ts';
import { castFloats } from './cast-floats.ts';

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
