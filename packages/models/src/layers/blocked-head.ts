import type { DecodedFormat, Parameter, Tensor } from '@shardwise/core/extend';
import { blockedProduct, columnsOf, decodedRows } from '../quantized/blocked-rows.ts';
import { LanguageModelHead } from './language-model-head.ts';

/** A frozen LanguageModelHead whose weight is kept in the blocks of a file. */
export class BlockedHead extends LanguageModelHead {
  readonly format: DecodedFormat;

  /** Shape: weight u8 [V, bytes of a row]. */
  constructor(weight: Parameter, format: DecodedFormat, softcap: number | null) {
    super(weight, softcap);
    this.format = format;
  }

  override rows(dtype: Tensor['dtype']): Tensor {
    return decodedRows(this, dtype);
  }

  protected override product(x: Tensor): Tensor {
    return blockedProduct(x, this);
  }

  protected override describe(): string {
    const [classes = 0] = this.weight.shape;
    return `inFeatures=${columnsOf(this)}, outFeatures=${classes}, format=${this.format.name}`;
  }
}
