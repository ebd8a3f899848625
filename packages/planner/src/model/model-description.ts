import type { ModuleCosts } from '@shardwise/strategies';
import type { TransformerDescription } from './transformer.ts';

/**
 * A model of any modules, by the costs of those with which stages of a pipeline may begin. The costs are those of a
 * batch of `rows` rows.
 */
export interface ModulesDescription {
  readonly kind: 'modules';
  readonly name: string;
  readonly rows: number;
  readonly modules: readonly ModuleCosts[];
  /** The bytes of the inputs and the targets of such a batch. Default: not known. */
  readonly inputBytes?: number;
}

/** What a plan needs to know of a model. It is data. */
export type ModelDescription = TransformerDescription | ModulesDescription;

/** Returns the number of elements of all parameters. */
export function parameterCount(model: ModelDescription): number {
  if (model.kind === 'modules') {
    return model.modules.reduce((sum, { parameters }) => sum + parameters, 0);
  }
  const { embedding, layer, experts, finalNorm, head } = model.parameters;
  return embedding + model.layers * (layer + experts) + finalNorm + head;
}
