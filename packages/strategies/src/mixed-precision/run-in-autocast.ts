import { autocast, type Module, type Plan } from '@shardwise/core/extend';
import { interceptForward } from '../sharding/intercept-forward.ts';
import { castFloats } from './cast-floats.ts';

/** Has forward passes of a model compute as its plan says. */
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
