import {
  CheckpointError,
  formatShape,
  fromData,
  type HeldChunk,
  modelTensors,
  type Module,
  replicated,
  type SavedState,
  type SavedType,
  stepName,
  type Tensor,
} from '@shardwise/core/extend';
import { z } from 'zod';
import { chunksOfTensor } from './model-chunks.ts';
import type { StoredGroup } from './index-file.ts';

/** What an optimizer must have so that its states can be saved. */
export interface SavedOptimizer {
  readonly paramGroups: readonly { readonly params: readonly Tensor[] }[];
  savedState(parameter: Tensor): SavedState | undefined;
  savedType(parameter: Tensor, name: string): SavedType;
}

/** Returns what this rank saves of the optimizer's states: tensors under `parameter name.state name`. */
export function chunksOfOptimizer(model: Module, optimizer: SavedOptimizer): readonly HeldChunk[] {
  const nameOf = parameterName(model);
  return optimizer.paramGroups
    .flatMap(({ params }) => params)
    .flatMap((parameter) => {
      const state = optimizer.savedState(parameter);
      if (state === undefined) return [];
      const name = nameOf(parameter);
      const count = fromData(Float32Array.of(state.steps), [], 'f32');
      const tensors = [...state.tensors].flatMap(([key, make]) =>
        chunksOfTensor(`${name}.${key}`, make, optimizer.savedType(parameter, key)),
      );
      const steps = chunksOfTensor(`${name}.${stepName}`, () => count, stepType(parameter));
      return [...steps, ...tensors];
    });
}

/** Returns how the number of a parameter's updates lies on the ranks. */
export function stepType({ part }: Tensor): SavedType {
  const { varying = [] } = part.layout;
  return { shape: [], wholeShape: [], dtype: 'f32', layout: { ...replicated([]), varying } };
}

/**
 * Returns the settings of each parameter group and the names of its parameters. Throws CheckpointError if a setting
 * cannot be written as JSON.
 */
export function optimizerGroups(model: Module, optimizer: SavedOptimizer): readonly StoredGroup[] {
  const nameOf = parameterName(model);
  return optimizer.paramGroups.map(({ params, ...settings }, index) => {
    const parsed = z.record(z.string(), z.json()).safeParse(settings);
    if (parsed.success) return { params: params.map(nameOf), settings: parsed.data };
    throw new CheckpointError(
      {
        asked: `to save the settings of parameter group ${index}`,
        found: `"${parsed.error.issues[0]?.path.join('.') ?? ''}" cannot be written as JSON`,
        todo: 'Use numbers, texts, booleans and lists of them as settings',
      },
      { group: index },
      { cause: parsed.error },
    );
  });
}

/**
 * Returns a function that names parameters. It throws CheckpointError for a parameter that does not belong to the
 * model.
 */
function parameterName(model: Module): (parameter: Tensor) => string {
  const names = new Map(modelTensors(model).map(({ names: [name], tensor }) => [tensor, name]));
  return (parameter) => {
    const name = names.get(parameter);
    if (name !== undefined) return name;
    throw new CheckpointError(
      {
        asked: 'to save an optimizer by the names of its parameters',
        found: `a parameter of shape ${formatShape(parameter.shape)} that the model does not have`,
        todo: 'Pass the model whose parameters the optimizer updates; make the optimizer after `parallelize`',
      },
      { shape: parameter.shape },
    );
  };
}
