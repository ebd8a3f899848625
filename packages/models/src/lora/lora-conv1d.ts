import type { Parameter, Tensor } from '@shardwise/core/extend';
import type { SharedProduct } from '@shardwise/strategies';
import { Conv1D } from '../layers/conv1d.ts';
import { InitialValues } from '../layers/initial-values.ts';
import type { LayerStack } from './adapter-stack.ts';
import { adaptedProduct, type LoraLayer, type MergedUpdate } from './lora-layer.ts';
import { adapterName, type LoraParts } from './lora-parts.ts';
import type { LoraSettings } from './lora-options.ts';
import type { LowRankFactor } from './low-rank-factor.ts';

/** Makes a layer without weights of its own. */
const none = (): InitialValues => new InitialValues({ initialValues: 'zeros' }, 0);

/** A frozen Conv1D with an adapter. It has the parameters of the Conv1D that it replaces, under the same names. */
export class LoraConv1D extends Conv1D implements LoraLayer {
  loraA: LowRankFactor;
  loraB: LowRankFactor;
  loraMagnitudeVector: Parameter | null;
  readonly settings: LoraSettings;
  merged: MergedUpdate | null = null;
  stack: LayerStack | null = null;

  constructor(base: Conv1D, { settings, loraA, loraB, loraMagnitudeVector }: LoraParts) {
    super(none(), 0, 0);
    this.weight = base.weight;
    this.bias = base.bias;
    this.loraA = loraA;
    this.loraB = loraB;
    this.loraMagnitudeVector = loraMagnitudeVector;
    this.settings = settings;
  }

  get mergeableWeight(): Parameter {
    return this.weight;
  }

  /** The layer without its adapter. */
  unwrapped(): Conv1D {
    const plain = new Conv1D(none(), 0, 0);
    plain.weight = this.weight;
    plain.bias = this.bias;
    return plain;
  }

  /** Shape: x [.., in] -> [.., out]. */
  override product(x: Tensor): Tensor {
    return this.sharedProduct(x, null);
  }

  sharedProduct(x: Tensor, shared: SharedProduct | null): Tensor {
    return adaptedProduct(this, x, shared);
  }

  baseProduct(x: Tensor): Tensor {
    return super.product(x);
  }

  weightRows(): Tensor {
    return this.weight.transpose(0, 1);
  }

  fromRows(rows: Tensor): Tensor {
    return rows.transpose(0, 1);
  }

  protected override nameOf(field: string): string {
    return adapterName(field);
  }

  protected override describe(): string {
    return `${this.weight.shape.join(', ')}, rank=${this.settings.rank}, alpha=${this.settings.alpha}`;
  }
}
