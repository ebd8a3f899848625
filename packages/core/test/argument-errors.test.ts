import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { ndArray } from '../src/tensor/nd-array.ts';
import * as functional from '../src/nn/functional.ts';
import { BatchNorm2d } from '../src/nn/norm/batch-norm-layers.ts';
import { Conv2d } from '../src/nn/convolution/conv2d.ts';
import { Embedding } from '../src/nn/layers/embedding.ts';
import { LayerNorm } from '../src/nn/norm/layer-norm.ts';
import { Linear } from '../src/nn/layers/linear.ts';
import { MultiheadAttention } from '../src/nn/attention/multihead-attention.ts';
import { RMSNorm } from '../src/nn/norm/rms-norm.ts';
import { Sequential } from '../src/nn/containers/sequential.ts';
import { noGrad } from '../src/graph/create-node.ts';
import { tokenLossScale } from '../src/nn/losses/token-loss-scale.ts';
import { manualSeed } from '../src/random/keys.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError, DataError, DTypeError, ShapeError } from '../src/spec/errors.ts';
import { fromArray, fromData, full, ones, stack, tensor, zeros } from '../src/tensor/create.ts';
import { arange } from '../src/tensor/create-ranges.ts';

beforeEach(() => setRank({ device: interpreter() }));

type Refusal = readonly [
  mistake: string,
  does: () => unknown,
  error: abstract new (...inputs: never[]) => Error,
  says: string,
];

function refuse(list: readonly Refusal[]): void {
  test.each(list)('%s', (_, does, error, says) => {
    expect(does).toThrow(error);
    expect(does).toThrow(says);
  });
}

describe('a layer says which size of its input it expected:', () => {
  const attention = new MultiheadAttention(8, 2);
  refuse([
    [
      'features of Linear',
      () => new Linear(3, 4).forward(ones([2, 5])),
      ShapeError,
      'linear with x of shape [2, 5]: 5 features (dim -1) instead of 3. Use x of shape [.., 3]',
    ],
    [
      'a scalar',
      () => new Linear(3, 4).forward(ones([])),
      ShapeError,
      '0 dims instead of 1 or more',
    ],
    [
      'in a row of layers',
      () => new Sequential(new Linear(2, 3), new Linear(4, 5)).forward(ones([1, 2])),
      ShapeError,
      'linear with x of shape [1, 3]: 3 features (dim -1) instead of 4',
    ],
    [
      'channels',
      () => new Conv2d(3, 8, 3).forward(ones([2, 1, 8, 8])),
      ShapeError,
      'conv2d with x of shape [2, 1, 8, 8]: 1 channels (dim 1) instead of 3. Use x of shape [N, 3, H, W]',
    ],
    [
      'channels in groups',
      () => new Conv2d(4, 8, 3, { groups: 2 }).forward(ones([2, 2, 8, 8])),
      ShapeError,
      '2 channels (dim 1) instead of 4',
    ],
    [
      'channels that stand last',
      () => new Conv2d(3, 8, 3).forward(ones([2, 32, 32, 3])),
      ShapeError,
      'come first with x.permute([0, 3, 1, 2])',
    ],
    [
      'an image alone',
      () => new Conv2d(3, 8, 3).forward(ones([3, 8, 8])),
      ShapeError,
      '3 dims instead of 4. Use x of shape [N, 3, H, W]; one image is a batch of one with x.unsqueeze(0)',
    ],
    [
      'a kernel beyond the image',
      () => new Conv2d(3, 8, 3, { dilation: 2 }).forward(ones([2, 3, 4, 4])),
      ShapeError,
      'a kernel of 5 × 5 on an input of 4 × 4 with padding 0 × 0',
    ],
    [
      'channels of BatchNorm2d',
      () => new BatchNorm2d(3).forward(ones([2, 4, 8, 8])),
      ShapeError,
      'BatchNorm2d with x of shape [2, 4, 8, 8]: 4 channels (dim 1) instead of 3',
    ],
    [
      'rows in the place of images',
      () => new BatchNorm2d(3).forward(ones([2, 3])),
      ShapeError,
      '2 dims instead of 4',
    ],
    [
      'features of LayerNorm',
      () => new LayerNorm(8).forward(ones([2, 4])),
      ShapeError,
      'LayerNorm with x of shape [2, 4]: 4 features (dim -1) instead of 8',
    ],
    [
      'features of RMSNorm',
      () => new RMSNorm(8).forward(ones([2, 4])),
      ShapeError,
      'RMSNorm with x of shape [2, 4]: 4 features',
    ],
    [
      'features of attention',
      () => attention.forward(ones([2, 5, 6])),
      ShapeError,
      'MultiheadAttention with x of shape [2, 5, 6]: 6 features (dim 2) instead of 8',
    ],
    [
      'a sequence alone',
      () => attention.forward(ones([5, 8])),
      ShapeError,
      '2 dims instead of 3. Use x of shape [B, T, 8]',
    ],
    [
      'features of what is attended to',
      () => attention.attend(ones([2, 5, 8]), ones([2, 3, 7]), ones([2, 3, 8])),
      ShapeError,
      'with key of shape [2, 3, 7]: 7 features',
    ],
    [
      'another number of items to attend to',
      () => attention.attend(ones([2, 5, 8]), ones([3, 5, 8]), ones([3, 5, 8])),
      ShapeError,
      '3 items (dim 0) instead of 2',
    ],
  ]);
});

describe('a function says what it expected of which argument:', () => {
  const q = () => ones([2, 2, 3, 4]);
  const attend = functional.scaledDotProductAttention;
  refuse([
    [
      'a weight of one dim',
      () => functional.linear(ones([2, 3]), ones([3])),
      ShapeError,
      'linear with weight of shape [3]: 1 dim instead of 2. Use weight of shape [O, I]',
    ],
    [
      'a bias of another size',
      () => functional.linear(ones([2, 3]), ones([4, 3]), ones([3])),
      ShapeError,
      'linear with bias of shape [3]: 3 features (dim 0) instead of 4',
    ],
    [
      'a bias of a convolution',
      () => functional.conv2d(ones([1, 2, 4, 4]), ones([3, 2, 2, 2]), ones([2])),
      ShapeError,
      'conv2d with bias of shape [2]: 2 channels (dim 0) instead of 3',
    ],
    [
      'queries of three dims',
      () => attend(ones([2, 3, 4]), q(), q()),
      ShapeError,
      'scaledDotProductAttention with q of shape [2, 3, 4]: 3 dims instead of 4. Use q of shape [B, H, T, D]',
    ],
    [
      'keys of another width',
      () => attend(q(), ones([2, 2, 3, 5]), ones([2, 2, 3, 5])),
      ShapeError,
      'with k of shape [2, 2, 3, 5]: 5 features (dim 3) instead of 4',
    ],
    [
      'values of another length',
      () => attend(q(), q(), ones([2, 2, 6, 4])),
      ShapeError,
      'with v of shape [2, 2, 6, 4]: 6 keys (dim 2) instead of 3',
    ],
    [
      'a mask of another size',
      () => attend(q(), q(), q(), { mask: ones([5, 5]) }),
      ShapeError,
      'with a mask of shape [5, 5]: scores of shape [2, 2, 3, 3], [batch, heads, queries, keys], to which it does not broadcast. Use sizes of 1 or those of the scores, as [3, 3]',
    ],
    [
      'a weight of a norm',
      () => ones([2, 4]).layerNorm(ones([3]), ones([4])),
      ShapeError,
      'a last dim of size 4 and a weight or bias of shape [3]',
    ],
    [
      'padding beyond half the kernel',
      () => functional.maxPool2d(ones([1, 3, 8, 8]), 2, { padding: 2 }),
      ShapeError,
      'maxPool2d of shape [1, 3, 8, 8] with a kernel of [2, 2]',
    ],
    [
      'groups that do not divide',
      () => new Conv2d(3, 8, 3, { groups: 2 }),
      ConfigError,
      'Conv2d of 3 input and 8 output channels in 2 groups: channels that the groups do not divide',
    ],
    [
      'labels and classes in other places',
      () => functional.crossEntropy(ones([2, 3, 4, 4]), zeros([2, 4, 4], 'i32')),
      ShapeError,
      'Pass dim: 1 where the classes are dim 1, as in PyTorch',
    ],
    [
      'predictions of another shape',
      () => functional.mseLoss(ones([4, 1]), ones([4])),
      ShapeError,
      'mseLoss of shapes [4, 1] and [4]',
    ],
    [
      'tensors of several shapes in a stack',
      () => stack([ones([2, 3]), ones([2, 4])]),
      ShapeError,
      'stack of 2 tensors: tensor 0 of shape [2, 3] and tensor 1 of [2, 4]',
    ],
    ['nothing in a stack', () => stack([]), ShapeError, 'stack: no tensors'],
  ]);
});

describe('a method says what it expected:', () => {
  const x = () => ones([2, 3]);
  refuse([
    [
      'parts of no element',
      () => ones([4]).split(0),
      ConfigError,
      'split with size: 0: a value that is not a whole number from 1',
    ],
    ['parts of less', () => ones([4]).split(-1), ConfigError, 'split with size: -1'],
    [
      'parts of other sizes',
      () => ones([4]).split([1, 3] as never),
      ConfigError,
      'split with size: [1, 3]',
    ],
    [
      'sizes one by one',
      () => x().reshape(3 as never),
      ShapeError,
      'reshape with sizes 3: no list. Write all sizes as one list: [3, …]',
    ],
    [
      'dims one by one',
      () => x().permute(...([1, 0] as unknown as [number[]])),
      ShapeError,
      'permute with dims 1: no list. Write all dims as one list: [1, …]',
    ],
    [
      'padding that is no list',
      () => x().pad(1 as never, [1, 1]),
      ShapeError,
      'pad with numbers before 1: no list',
    ],
    [
      'a dim by name to add along',
      () => x().sum({ dim: 1 } as never),
      ShapeError,
      'sum of shape [2, 3] along { dim: 1 }: no number of a dim. Write sum(1)',
    ],
    [
      'a dim by name of a softmax',
      () => x().softmax({ dim: 0 } as never),
      ShapeError,
      'softmax of shape [2, 3] along { dim: 0 }: no number of a dim. Write softmax(0)',
    ],
    [
      'a dim as a text',
      () => x().mean('1' as never),
      ShapeError,
      "mean of shape [2, 3] along '1': no number of a dim. Write mean(-1) for the last dim",
    ],
    [
      'dims as texts',
      () => x().mean(['1'] as never),
      ShapeError,
      "mean along dim '1': a tensor of 2 dims",
    ],
    [
      'running sums along no dim',
      () => x().cumsum(undefined as never),
      ShapeError,
      'cumsum of shape [2, 3]: no dim to do it along. Write cumsum(-1) for the last dim; for all elements in a row, flatten().cumsum(0)',
    ],
    [
      'an element that is not there',
      () => ones([2, 4]).select(1, 4),
      ShapeError,
      'select of element 4 of dim 1 of shape [2, 4]: 4 elements there. Use an index from -4 to 3',
    ],
    [
      'padding for one dim of two',
      () => x().pad([1], [1]),
      ShapeError,
      'pad of shape [2, 3] with before [1]: 1 numbers for 2 dims',
    ],
    ['padding by halves', () => x().pad([0, 0.5], [0, 0]), ShapeError, 'with before [0, 0.5]'],
    [
      'a dtype of PyTorch',
      () => x().to('int64' as never),
      DTypeError,
      "to() with the dtype 'int64': no dtype of this name. Write 'i64'",
    ],
    [
      'an approximation',
      () => x().gelu('exact' as never),
      ConfigError,
      "gelu with approximate: 'exact'",
    ],
    [
      'a text to add',
      () => x().add('1' as never),
      DTypeError,
      "'1', neither a tensor nor a number",
    ],
    [
      'a list to multiply by',
      () => x().mul([1, 2] as never),
      DTypeError,
      '[1, 2], neither a tensor nor a number. Give a number, or make a tensor: tensor([…])',
    ],
    ['nothing to add', () => x().add(undefined as never), DTypeError, 'undefined, neither'],
    [
      'a list as a matrix',
      () => x().matmul([[1], [2], [3]] as never),
      DTypeError,
      'matmul with other: an array of 3 in the place of a tensor',
    ],
    [
      'a list of indices',
      () => x().indexSelect(0, [1] as never),
      DTypeError,
      'indexSelect with index: [1] in the place of a tensor',
    ],
    [
      'a list among tensors',
      () => stack([x(), [1] as never]),
      DTypeError,
      'stack with 1: [1] in the place of a tensor',
    ],
  ]);
});

describe('what is no tensor is refused by what it is:', () => {
  refuse([
    [
      'an array',
      () => new Linear(3, 4).forward([1, 2, 3] as never),
      DTypeError,
      'linear with x: [1, 2, 3] in the place of a tensor. Make one: tensor([…])',
    ],
    [
      'an array of a batch',
      () => new Linear(3, 4).forward(ndArray(new Float32Array(3)) as never),
      DTypeError,
      'an NDArray in the place of a tensor. Make one of it: fromArray(array)',
    ],
    [
      'nothing',
      () => new Conv2d(3, 4, 1).forward(undefined as never),
      DTypeError,
      'conv2d with x: undefined in the place of a tensor',
    ],
    [
      'a number in the place of a shape',
      () => zeros(3 as never),
      ShapeError,
      'zeros of shape 3: no list of sizes. Give a list: [2, 3] for 2 rows of 3, [] for a scalar',
    ],
    [
      'sizes one by one',
      () => zeros(2 as never, 3 as never),
      ShapeError,
      'zeros of shape 2: no list of sizes. Give a list: [2, 3] for 2 rows of 3, [] for a scalar',
    ],
    [
      'a dtype in the place of a shape',
      () => fromData(new Float32Array(2), 'f32' as never, [2] as never),
      ShapeError,
      "fromData of shape 'f32': no list of sizes. Give a list: [2, 3] for 2 rows of 3, [] for a scalar",
    ],
    [
      'a tensor in the place of a body',
      () => noGrad(ones([2]) as never),
      ConfigError,
      'noGrad with a Tensor: no function that it could run. Write noGrad(() => model.forward(x))',
    ],
    [
      'a seed as a text',
      () => manualSeed('1' as never),
      ConfigError,
      "a random generator with seed '1': no integer",
    ],
    [
      'a number of tokens alone',
      () => tokenLossScale(5 as never),
      DataError,
      'a loss over 5 tokens: no list of numbers. Give a list',
    ],
    [
      'numbers of tokens as texts',
      () => tokenLossScale(['3', 4] as never),
      DataError,
      "a loss over '3' + 4 tokens: numbers that are no counts",
    ],
    [
      'a dtype of PyTorch',
      () => ones([2], 'float32' as never),
      DTypeError,
      "ones with the dtype 'float32': no dtype of this name. Write 'f32'; the dtypes are f64, f32",
    ],
    [
      'a dtype that nobody has',
      () => full([2], 1, 'f8' as never),
      DTypeError,
      'Use one of f64, f32, f16, bf16, i64, i32, u8, bool',
    ],
    [
      'a range that ends before it begins',
      () => arange(-2),
      ConfigError,
      'arange from 0 to -2 by 1',
    ],
    [
      'texts',
      () => tensor(['a'] as never),
      DTypeError,
      "a tensor of nested arrays: 'a' among its elements",
    ],
    [
      'nothing among elements',
      () => tensor([[1], [null]] as never),
      DTypeError,
      'null among its elements',
    ],
    [
      'a typed array',
      () => tensor(new Float32Array(3) as never),
      DTypeError,
      "a Float32Array among its elements. Give a typed array to fromData(array, shape, 'f32')",
    ],
    [
      'a dtype that tensor() does not make',
      () => tensor([1], 'f16' as never),
      ConfigError,
      'one of f32, i32, bool',
    ],
    [
      'elements in a list',
      () => fromData([1, 2] as never, [2], 'f32'),
      DTypeError,
      'its elements in [1, 2]. Use the typed array',
    ],
    [
      'a list in the place of an NDArray',
      () => fromArray([1, 2] as never),
      DTypeError,
      'a tensor over an NDArray: [1, 2]. Give what data.ndArray() or a batch',
    ],
    [
      'a text in the place of a size',
      () => new Embedding(10, '4' as never),
      ConfigError,
      "Embedding with embeddingDim: '4'",
    ],
  ]);
});
