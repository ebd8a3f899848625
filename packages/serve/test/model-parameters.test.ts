import { nn } from '@shardwise/core';
import { beforeEach, expect, test, vi } from 'vitest';
import { ModelParameters } from '../src/engine/model-parameters.ts';
import { useCpu } from './models.ts';

beforeEach(useCpu);

class Model extends nn.Module {
  first = new nn.Linear(1, 1);
  list = new nn.ModuleList<nn.Linear>([new nn.Linear(1, 1)]);
  named = new nn.ModuleDict<nn.Module>({ last: new nn.Linear(1, 1, { bias: false }) });
}

function layerOf(list: nn.ModuleList<nn.Linear>): nn.Linear {
  const [layer] = list;
  return layer ?? expect.fail();
}

const changes: Readonly<Record<string, (model: Model) => void>> = {
  'a parameter of a layer': ({ first }) => {
    first.weight = new nn.Parameter(Float32Array.of(1), [1, 1]);
  },
  'a parameter of a layer in a list': ({ list }) => {
    layerOf(list).bias = null;
  },
  'a list': (model) => {
    model.list = new nn.ModuleList([new nn.Linear(1, 1)]);
  },
  'a layer of a dict': ({ named }) => {
    named.set('last', new nn.Linear(1, 1));
  },
  'a parameter that is shared': (model) => {
    model.first.weight = layerOf(model.list).weight;
  },
};

test.each(Object.entries(changes))('%s is found when it has changed', (_, change) => {
  const model = new Model();
  const parameters = new ModelParameters([model]);
  expect(parameters.found).toEqual(model.parameters());
  change(model);
  parameters.find();
  const present = model.parameters();
  expect(parameters.found).toHaveLength(present.length);
  expect(parameters.found.every((each, at) => each === present[at])).toBe(true);
});

test('a field that holds no parameter changes nothing', () => {
  const model = Object.assign(new Model(), { passes: 0 });
  const parameters = new ModelParameters([model]);
  const { found } = parameters;
  model.passes++;
  parameters.find();
  expect(parameters.found).toBe(found);
});

test('a model in which nothing has changed is not searched again', () => {
  const model = new Model();
  const parameters = new ModelParameters([model]);
  const search = vi.spyOn(model, 'parameters');
  parameters.find();
  expect(search).not.toHaveBeenCalled();
  model.first.bias = null;
  parameters.find();
  expect(search).toHaveBeenCalledOnce();
});
