/**
 * Writes ONNX files of small models, with inputs of several sizes and our outputs, into a folder that `check-files.py`
 * checks. Run from the repository root:
 *
 *     node --conditions=@shardwise/source --import=$PWD/test/support/resolve-sources.ts tools/onnx/write-files.ts FOLDER
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { cpu } from '@shardwise/backend-cpu';
import { createThreadsWorld, joinThreadsWorld } from '@shardwise/collectives';
import { fromData, LineMesh, nn, setRank, Tensor } from '@shardwise/core';
import { Gemma2ForCausalLM, GPT2LMHeadModel, LlamaForCausalLM } from '@shardwise/models';
import { saveOnnx, type SaveOnnxOptions } from '@shardwise/models/node';

const [folder = 'runs/onnx'] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const group = joinThreadsWorld(createThreadsWorld({ size: 1 }), 0);
setRank({ device: await cpu(), mesh: new LineMesh('dp', group) });

class Perceptron extends nn.Module {
  readonly first = new nn.Linear(3, 8);
  readonly norm = new nn.LayerNorm(8);
  readonly second = new nn.Linear(8, 2);

  forward(features: Tensor): Tensor {
    return this.second.forward(this.norm.forward(this.first.forward(features).gelu()));
  }
}

class Convolutions extends nn.Module {
  readonly conv1 = new nn.Conv2d(3, 4, 3, { padding: 1, stride: 2 });
  readonly bn1 = new nn.BatchNorm2d(4);
  readonly pool = new nn.MaxPool2d(2);
  readonly fc = new nn.Linear(4 * 3 * 3, 5);

  forward(image: Tensor): Tensor {
    const x = this.pool.forward(this.bn1.forward(this.conv1.forward(image)).relu());
    return this.fc.forward(x.flatten(1)).logSoftmax();
  }
}

/** Has the operators that the other models do not have, and constants that depend on sizes. */
class Rest extends nn.Module {
  forward(x: Tensor): Readonly<Record<string, Tensor>> {
    return {
      mean: x.mean(1),
      best: x.argMax(2),
      order: x.argSort(2),
      sums: x.cumsum(1).softplus().sign(),
      gathered: x.gather(1, x.argSort(1)),
      added: x.indexAdd(1, x.select(2, 0).argSort(1).select(0, 0), x),
      padded: x.slice(1, 1, x.shape[1] ?? 0).div(x.abs().max().add(1)),
    };
  }
}

function waves(shape: readonly number[]): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  const values = Float32Array.from({ length: count }, (_, i) => Math.sin((i + 1) * 12.9898));
  return fromData(values, [...shape], 'f32');
}

function tokens(shape: readonly number[]): Tensor {
  const count = shape.reduce((product, size) => product * size, 1);
  return fromData(
    Int32Array.from({ length: count }, (_, i) => (i * 7 + 3) % 48),
    [...shape],
    'i32',
  );
}

interface Runnable extends nn.Module {
  forward(x: Tensor): Tensor | Readonly<Record<string, Tensor>>;
}

async function write(
  name: string,
  model: Runnable,
  inputs: readonly Tensor[],
  options: SaveOnnxOptions = {},
): Promise<void> {
  model.eval();
  const [sample] = inputs;
  if (sample === undefined) throw new RangeError('no sample');
  await saveOnnx(join(folder, `${name}.onnx`), model, [sample], options);
  const runs = [];
  for (const input of inputs) {
    const output = model.forward(input);
    const outputs = output instanceof Tensor ? [output] : Object.values(output);
    const read = async (tensor: Tensor) => ({
      shape: tensor.shape,
      values: Array.from(await tensor.data(), Number),
    });
    runs.push({ input: await read(input), outputs: await Promise.all(outputs.map(read)) });
  }
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(runs));
}

const lengths = [
  [2, 12],
  [1, 9],
  [5, 30],
] as const;
const ids = lengths.map(tokens);
await write('perceptron', new Perceptron(), [waves([4, 3]), waves([1, 3])]);
await write('convolutions', new Convolutions(), [waves([2, 3, 12, 12]), waves([5, 3, 12, 12])]);
await write('rest', new Rest(), [waves([3, 5, 4]), waves([2, 9, 4])], {
  dynamicAxes: { x: { 0: 'batch', 1: 'time' } },
});
await write(
  'gpt2',
  new GPT2LMHeadModel({ vocabSize: 48, nPositions: 32, nEmbd: 16, nLayer: 2, nHead: 2 }),
  ids,
);
const decoder = {
  vocabSize: 48,
  hiddenSize: 16,
  intermediateSize: 32,
  numHiddenLayers: 2,
  numAttentionHeads: 4,
  numKeyValueHeads: 2,
  maxPositionEmbeddings: 64,
};
await write('llama', new LlamaForCausalLM(decoder), ids);
await write('llama-apart', new LlamaForCausalLM(decoder), ids, { externalData: true });
await write('gemma2', new Gemma2ForCausalLM({ ...decoder, headDim: 8, slidingWindow: 6 }), ids, {
  dynamicAxes: { input_ids: { 0: 'batch', 1: { name: 'sequence', min: 8, max: 64 } } },
});
