import { functional, Linear, type Parameter, type Tensor } from '@shardwise/core/extend';

/** The head of a language model: a Linear that returns logits, or the loss of labels. Weight [V, C]. */
export class LanguageModelHead extends Linear {
  /** Logits s are bounded by this number c, as c tanh(s / c). Null: they are not. */
  readonly softcap: number | null;

  constructor(weight: Parameter, softcap: number | null = null) {
    super(0, 0, { bias: false });
    this.weight = weight;
    this.softcap = softcap;
  }

  /**
   * Returns logits, or with labels their mean cross-entropy, for which logits are never there as a whole. Labels of -100
   * do not count. `labelCount` is what the sum is divided by, if the labels are a part of those of the loss.
   * Shape: x [B, T, C], labels i32 [B, T], labelCount f32 [] -> [B, T, V], or [].
   */
  override forward(x: Tensor, labels?: Tensor, labelCount?: Tensor): Tensor {
    const { softcap } = this;
    if (labels !== undefined) {
      const loss = functional.linearCrossEntropy(x, this.rows(x.dtype), labels, {
        ...(softcap === null ? {} : { softcap }),
        ...(this.bias === null ? {} : { bias: this.bias }),
        reduction: labelCount === undefined ? 'mean' : 'sum',
      });
      return labelCount === undefined ? loss : loss.div(labelCount);
    }
    const logits = this.product(x);
    return softcap === null ? logits : logits.div(softcap).tanh().mul(softcap);
  }

  /** The weight, for products with operands of a dtype. Shape: -> [V, C], or this rank's part of its rows. */
  rows(_dtype: Tensor['dtype']): Tensor {
    return this.weight;
  }

  /** Logits before they are bounded. Shape: x [.., C] -> [.., V]. */
  protected product(x: Tensor): Tensor {
    return super.forward(x);
  }
}
