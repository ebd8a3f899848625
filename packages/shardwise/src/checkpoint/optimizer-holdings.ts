import {
  CheckpointError,
  formatShape,
  type Module,
  type ParameterState,
  sameShape,
  type Tensor,
} from '@shardwise/core';
import { z } from 'zod';
import type { Holding } from './holding.ts';
import { tensorHoldings } from './model-holdings.ts';
import { modelTensors } from './model-tensors.ts';
import type { StoredGroup } from './state-file.ts';

/** What an optimizer must have so that its states can be saved. */
export interface SavedOptimizer {
  readonly paramGroups: readonly { readonly params: readonly Tensor[] }[];
  stateOf(parameter: Tensor): ParameterState | undefined;
}

/** How often a parameter was updated: a scalar, and not of the parameter's shape. */
export const STEP = 'step';

/** What this rank saves of the states: tensors under `parameter name.state name`. */
export function optimizerHoldings(model: Module, optimizer: SavedOptimizer): readonly Holding[] {
  const nameOf = parameterName(model);
  return optimizer.paramGroups
    .flatMap(({ params }) => params)
    .flatMap((parameter) => {
      const state = optimizer.stateOf(parameter);
      if (state === undefined) return [];
      const name = nameOf(parameter);
      const { extent, shape } = parameter.part;
      const { steps } = state;
      const count: Holding = {
        name: `${name}.${STEP}`,
        dtype: 'f32',
        shape: [],
        block: [],
        start: 0,
        stop: 1,
        read: async () => new Uint8Array(Float32Array.of(steps).buffer),
      };
      const tensors = [...state.tensors].flatMap(([key, tensor]) => {
        const full = `${name}.${key}`;
        if (sameShape(tensor.shape, shape)) return tensorHoldings(full, tensor, extent);
        if (sameShape(shape, extent.shape)) {
          return tensorHoldings(full, tensor, tensor.extent);
        }
        throw uncutError(full, tensor, parameter.part);
      });
      return [count, ...tensors];
    });
}

/** Settings of the groups, and whose they are. */
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

/** Throws CheckpointError for a parameter that is not the model's. */
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

function uncutError(name: string, tensor: Tensor, parameter: Tensor): CheckpointError {
  return new CheckpointError(
    {
      asked: `to save ${name} of shape ${formatShape(tensor.shape)}`,
      found: `a part of shape ${formatShape(parameter.shape)} of a sharded parameter`,
      todo: 'Use an optimizer whose states have the shape of the parameter, or a strategy that does not shard it',
    },
    { name, shape: tensor.shape, part: parameter.shape },
  );
}
