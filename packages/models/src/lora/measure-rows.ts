import { currentSession, type Module, noGrad } from '@shardwise/core/extend';
import { isLoraLayer, lengthsOf, store } from './lora-layer.ts';

/**
 * Gives adapters of DoRA the lengths of the rows of their weights, under every strategy, where it is a collective. A model
 * without such adapters stays as it is.
 */
export async function measureRows(model: Module): Promise<void> {
  let changes = false;
  noGrad(() => {
    for (const [, layer] of model.namedModules()) {
      if (!isLoraLayer(layer) || layer.loraMagnitudeVector === null) continue;
      store(layer.loraMagnitudeVector, lengthsOf(layer.weightRows(null)));
      changes = true;
    }
  });
  if (changes) await currentSession().realize([]);
}
