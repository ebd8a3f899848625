// A rank of two layers that are split. It computes one operation each time the page allows it.
import { dist, fromData, Generator, init, setRank, type Tensor } from 'shardwise/browser';
import { formatLayout } from '@shardwise/core/extend';
import { type LiveJob, READY } from '../live-job.ts';
import { Gate } from '../rank/gate.ts';
import {
  HIDDEN,
  LAYER_TITLES,
  type LayerPart,
  type LayerStep,
  type LayerTask,
  TOKENS,
  WIDTH,
} from './layer-task.ts';

const context = await init();
const { rank, worldSize, device, group } = context;
const mesh = new dist.LineMesh('tp', group);
setRank({ device, mesh });
const gate = new Gate();
context.send(READY);
const { split } = (context.data as LiveJob).task as LayerTask;

const whole = dist.layout.layoutOf([null, null]);
const columns = dist.layout.layoutOf([null, 'tp']);
const rows = dist.layout.layoutOf(['tp', null]);
const layouts = {
  'columns, then rows': [columns, rows],
  'rows, then columns': [rows, columns],
  'not split': [whole, whole],
} as const;

/** Makes a matrix of values from -1 to 1. It is the same on all ranks. */
function matrix(seed: number, height: number, width: number): Tensor {
  const values = new Generator(seed).rand(height * width).map((share) => 2 * share - 1);
  return fromData(values, [height, width], 'f32');
}

/** Returns this rank's part of a tensor. Chunks have the sizes of torch.chunk. */
async function partOf(name: string, tensor: Tensor): Promise<LayerPart> {
  const [height = 0, width = 0] = tensor.shape;
  const range = (dim: number, size: number): readonly [number, number] => {
    if ((tensor.layout.dims[dim] ?? []).length === 0) return [0, size];
    const chunk = Math.ceil(size / worldSize);
    return [Math.min(rank * chunk, size), Math.min((rank + 1) * chunk, size)];
  };
  return {
    name,
    shape: [height, width],
    layout: formatLayout(tensor.layout),
    values: Array.from(await tensor.toLocal().data(), Number),
    rows: range(0, height),
    columns: range(1, width),
  };
}

/** Waits for the page, computes, sends the results to the page, and returns them. */
async function perform<Results extends Readonly<Record<string, Tensor>>>(
  compute: () => Results,
  difference?: (results: Results) => Promise<number>,
): Promise<Results> {
  step += 1;
  await gate.pass(step);
  const parts: LayerPart[] = [];
  const computed = Promise.withResolvers<Results>();
  const collectives = await dist.layout.countCollectives(async () => {
    const results = compute();
    for (const [name, tensor] of Object.entries(results)) parts.push(await partOf(name, tensor));
    computed.resolve(results);
  });
  const results = await computed.promise;
  const title = LAYER_TITLES[step - 1] ?? '';
  const far = await difference?.(results);
  const done: LayerStep = { step, title, parts, collectives };
  context.send(far === undefined ? done : { ...done, difference: far });
  return results;
}

/** This rank's parts, which get its parts of the gradients. */
const leaves = new Map<Tensor, Tensor>();

/** Makes a distributed tensor of this rank's part, which trains. Shape: leaf -> whole, of shape `shape`. */
function trained(leaf: Tensor, layout: dist.layout.Layout, shape: Tensor['shape']): Tensor {
  const tensor = dist.layout.fromLocal(leaf.requiresGrad_(), layout, shape);
  leaves.set(tensor, leaf);
  return tensor;
}

/** Returns a weight of which this rank has its part. Its gradient has the same layout. */
async function weight(values: Tensor, layout: dist.layout.Layout): Promise<Tensor> {
  const part = dist.layout.distributeTensor(values, layout).toLocal();
  const leaf = fromData(Float32Array.from(await part.data(), Number), part.shape, 'f32');
  return trained(leaf, layout, values.shape);
}

function gradientOf(tensor: Tensor): Tensor {
  const grad = leaves.get(tensor)?.grad ?? null;
  if (grad === null) throw new TypeError('backward has left no gradient');
  return dist.layout.fromLocal(grad, tensor.layout, tensor.shape);
}

let step = 0;
const [upLayout, downLayout] = layouts[split];
const [input, allUp, allDown] = [
  matrix(1, TOKENS, WIDTH),
  matrix(2, WIDTH, HIDDEN),
  matrix(3, HIDDEN, WIDTH),
];
const x = trained(input, whole, input.shape);
const [up, down] = [await weight(allUp, upLayout), await weight(allDown, downLayout)];

await perform(() => ({ x, up, down }));
const { 'x · up': product } = await perform(() => ({ 'x · up': x.matmul(up) }));
const { hidden } = await perform(() => ({ hidden: product.relu() }));
const { 'hidden · down': sums } = await perform(() => ({ 'hidden · down': hidden.matmul(down) }));
const { result } = await perform(
  () => ({ result: sums.redistribute(whole) }),
  (own) => own.result.toLocal().sub(input.matmul(allUp).relu().matmul(allDown)).abs().max().item(),
);
await perform(() => {
  result.square().sum().toLocal().backward();
  return {
    'gradient of up': gradientOf(up),
    'gradient of down': gradientOf(down),
    'gradient of x': gradientOf(x),
  };
});
await context.close();
