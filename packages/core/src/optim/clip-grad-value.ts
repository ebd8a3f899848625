import { noGrad } from '../graph/create-node.ts';
import { noteSettings } from '../graph/step-settings.ts';
import { ownPlace } from '../rank.ts';
import { withoutValues } from '../realize/pending/small-values.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { Tensor } from '../tensor/tensor.ts';
import { partsOf, tensorsOf } from './param-group.ts';
import { Scalar } from './scalar.ts';

const limitRules: OptionRules<{ clipValue: number }> = {
  clipValue: option.required(option.nonNegative),
};

/**
 * Limits each element of the gradients to [-clipValue, clipValue] (torch.nn.utils.clip_grad_value_). The call only
 * builds the graph, so it belongs between backward() and step(). Throws ConfigError if clipValue is not a number from
 * 0, or `parameters` is not a list of tensors.
 */
export function clipGradValue(parameters: Iterable<Tensor>, clipValue: number): void {
  const list = tensorsOf('clipGradValue', parameters);
  checkOptions('clipGradValue', { clipValue }, limitRules);
  noteSettings({ call: 'clipGradValue()', groups: [{ clipValue }] }, partsOf(list), ownPlace);
  const [low, high] = [new Scalar(-clipValue), new Scalar(clipValue)];
  const clip = (): void => {
    for (const { part } of list) {
      const { grad } = part;
      if (grad === null) continue;
      const { shape, dtype } = grad;
      const clipped = grad.maximum(low.of(shape).to(dtype)).minimum(high.of(shape).to(dtype));
      part.setGradientNode(clipped.node);
    }
  };
  withoutValues(() => noGrad(clip));
}
