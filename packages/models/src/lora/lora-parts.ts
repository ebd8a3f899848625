import { type Generator, noGrad, Parameter, type Tensor } from '@shardwise/core/extend';
import { LowRankFactor } from './low-rank-factor.ts';
import type { LoraSettings } from './lora-options.ts';

/** What an adapter adds to a layer. */
export interface LoraParts {
  readonly settings: LoraSettings;
  readonly loraA: LowRankFactor;
  readonly loraB: LowRankFactor;
  readonly loraMagnitudeVector: Parameter | null;
}

/** The state names of the members of a layer with an adapter, which are PEFT's. */
const stateNames: ReadonlyMap<string, string> = new Map([
  ['loraA', 'lora_A'],
  ['loraB', 'lora_B'],
  ['loraMagnitudeVector', 'lora_magnitude_vector'],
]);

export function adapterName(field: string): string {
  return stateNames.get(field) ?? field;
}

/** Makes the parts of an adapter that changes nothing yet: B is zero. Shape: weight [out, in]. */
export function initialParts(
  settings: LoraSettings,
  weight: Tensor,
  generator: Generator,
): LoraParts {
  const [outFeatures = 0, inFeatures = 0] = weight.shape;
  return {
    settings,
    loraA: LowRankFactor.drawn(generator, settings.rank, inFeatures),
    loraB: LowRankFactor.ofZeros(outFeatures, settings.rank),
    loraMagnitudeVector: settings.useDora ? lengthsOf(weight, outFeatures) : null,
  };
}

/** The lengths of the rows of a weight. Shape: [out, in] -> [out]. */
function lengthsOf(weight: Tensor, outFeatures: number): Parameter {
  const lengths = new Parameter(new Float32Array(outFeatures), [outFeatures]);
  noGrad(() => lengths.assign(weight.to('f32').square().sum(1).sqrt()));
  return lengths;
}
