import { interpreter } from '@shardwise/testing';
import { beforeEach, expect, test } from 'vitest';
import { embedding } from '../src/nn/functional/embedding.ts';
import { setRank } from '../src/rank.ts';
import { ConfigError, DTypeError, ShapeError } from '../src/spec/errors.ts';
import { full, ones, tensor, zeros } from '../src/tensor/create.ts';
import { cdist } from '../src/tensor/products/cdist.ts';
import { einsum } from '../src/tensor/products/einsum.ts';
import type { Tensor } from '../src/tensor/tensor.ts';

beforeEach(() => setRank({ device: interpreter() }));

const x = (): Tensor => ones([2, 3]);
/** Calls a method with arguments that its types do not allow. */
const given = (method: string, ...inputs: readonly unknown[]): unknown =>
  Reflect.apply(Reflect.get(x(), method), x(), inputs);
const whole = (): Tensor => ones([2, 3], 'i32');

test.each([
  ['a clamp without bounds', () => x().clamp(null), ConfigError, 'no bounds that are numbers'],
  ['half a decimal', () => x().round(0.5), ConfigError, 'round with decimals: 0.5'],
  ['decimals of integers', () => whole().round(1), DTypeError, 'round to decimals'],
  ['an integer by 0', () => whole().remainder(0), ConfigError, 'remainder of an i32 tensor by 0'],
  ['the rest of bools', () => x().gt(0).fmod(x().gt(0)), DTypeError, 'fmod of a bool'],
  ['an activation of integers', () => whole().elu(), DTypeError, 'elu of an i32 tensor'],
  ['a way between dtypes', () => x().lerp(whole(), 0.5), DTypeError, 'lerp of an i32 tensor'],
  ['shapes that do not broadcast', () => x().atan2(ones([2])), ShapeError, 'atan2 of shapes'],
  ['more than there are', () => x().topK(4), ShapeError, '3 elements along dim -1, of which 4'],
  ['half an element', () => x().topK(1.5), ConfigError, 'topK with k: 1.5'],
  ['a median of none', () => zeros([0]).median(0), ShapeError, 'no element along dim 0'],
  ['an order along no dim', () => x().sort(2), ShapeError, 'sort along dim 2'],
  ['a norm of integers', () => whole().norm(), DTypeError, 'norm of an i32 tensor'],
  ['counts of floats', () => ones([3]).binCount(2), DTypeError, 'binCount with indices'],
  ['counts of a matrix', () => whole().binCount(2), ShapeError, 'a tensor of other than one dim'],
  [
    'a range that ends before it begins',
    () => x().histogram({ range: [1, 0] }),
    ConfigError,
    'two finite numbers',
  ],
  ['no chunks', () => x().chunk(0), ConfigError, 'chunk with chunks: 0'],
  [
    'a mask of f16 with the number of f32',
    () => ones([2], 'f16').maskedFill(tensor([true, false]), -1e9),
    DTypeError,
    '-1000000000, which f16 does not hold',
  ],
  [
    'padding that is no row',
    () => embedding(ones([2], 'i32'), x(), 2),
    ConfigError,
    'embedding with paddingIdx: 2',
  ],
  [
    'a tensor full of nothing',
    () => Reflect.apply(full, undefined, [[2]]),
    DTypeError,
    'undefined as an element of f32',
  ],
  ['a slope in a text', () => given('leakyRelu', '0.1'), DTypeError, 'no number'],
  ['a dim summed twice', () => x().sum([1, -1]), ShapeError, '1 different dims of 2'],
  ['a dim flipped twice', () => x().flip([0, -2]), ShapeError, '1 different dims of 2'],
  ['shifts without dims', () => x().roll([1, 2], [0]), ShapeError, '2 shifts for 1 dims'],
  ['too few counts', () => x().repeat([2]), ShapeError, '1 counts for 2 dims'],
  ['a count below 0', () => x().tile([-1]), ConfigError, 'tile with repeats: -1'],
  ['dims that do not pair', () => x().movedim([0, 1], 0), ShapeError, '2 dims for 1 places'],
  ['a triangle of a vector', () => ones([3]).tril(), ShapeError, 'tril of shapes [3]'],
  ['a transpose of three dims', () => ones([1, 2, 3]).T, ShapeError, 'Write mT'],
  ['more items than dims', () => x().at(0, 0, 0), ShapeError, 'items for 3 dims of 2'],
  ['two ellipses', () => x().at('...', '...'), ShapeError, "2 times '...'"],
  ['an element that is not there', () => x().at(2), ShapeError, '2 elements there'],
  ['indices that are floats', () => x().at(ones([1])), DTypeError, 'at with indices'],
  [
    'a mask of another shape',
    () => x().maskedFill(ones([2]).gt(0), 0),
    ShapeError,
    'do not broadcast',
  ],
  ['a mask of numbers', () => x().maskedFill(x(), 0), DTypeError, 'maskedFill of an f32 tensor'],
  [
    'values of several elements',
    () => x().maskedFill(x().gt(0), x()),
    ShapeError,
    'a value of several elements',
  ],
  [
    'a source of another shape',
    () => x().scatter(0, tensor([[0]], 'i32'), x()),
    ShapeError,
    'an index and a source that differ',
  ],
  [
    'values that do not fit',
    () => x().indexPut([tensor([0, 1], 'i32')], ones([3, 3])),
    ShapeError,
    'values that do not broadcast to [2, 3]',
  ],
  ['no index', () => x().indexPut([], 0), ShapeError, '0 indices for 2 dims'],
  ['a dot of matrices', () => x().dot(x()), ShapeError, 'Use vectors, or matmul()'],
  ['rows of other lengths', () => cdist(x(), ones([2, 2])), ShapeError, 'rows of different'],
  ['a letter for no dim', () => einsum('ijk->i', x()), ShapeError, "'ijk' for 2 dims"],
  ['too few letters', () => einsum('i->i', x()), ShapeError, "'i' for 2 dims"],
  ['sizes that differ', () => einsum('ij,ij->', x(), ones([2, 2])), ShapeError, "3 and 2 of 'j'"],
  ['a letter from nowhere', () => einsum('ij->k', x()), ShapeError, "'k' behind the arrow"],
  ['terms without tensors', () => einsum('ij,jk->ik', x()), ShapeError, '2 terms for 1 tensors'],
  ['no equation', () => einsum('i j > k', x()), ShapeError, 'text that is no equation'],
] as const)('%s: one error says what was asked and found', (_, make, type, text) => {
  expect(make).toThrow(type);
  expect(make).toThrow(text);
});
