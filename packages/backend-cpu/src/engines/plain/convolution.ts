import type { Conv2dParams, Shape } from '@shardwise/core/spec';
import { elementCount } from '@shardwise/core/base';
import { inputAt } from '../../program/instruction.ts';
import type { Arena } from '../../memory/arena.ts';
import {
  type Multiplication,
  Multiplier,
  packedBytesOf,
} from '../../emit/wasm/multiply/multiply.ts';
import type { LinkLoop } from './run-loop.ts';
import { viewAt } from './view-at.ts';

const ELEMENT_BYTES = 4;

/**
 * The sizes of a convolution. For each image and group, it is one product of the group's filters and the image's
 * windows, which are the columns.
 */
interface Windows {
  readonly images: number;
  readonly groups: number;
  /** The number of channels of one group. `filters` is the number of filters of one group. */
  readonly channels: number;
  readonly filters: number;
  readonly height: number;
  readonly width: number;
  readonly kernel: readonly [number, number];
  readonly output: readonly [number, number];
  readonly params: Conv2dParams;
}

/**
 * Computes convolutions as products. Windows are written out as columns (im2col: Chellapilla et al. 2006). The gradient
 * of the input adds them up again.
 */
export const linkConvolution: LinkLoop<'conv2d' | 'conv2dInput' | 'conv2dWeight'> = (
  arena,
  instruction,
  inputs,
) => {
  const [first = [], second = []] = inputs.map(({ shape }) => shape);
  const [a, b] = [inputAt(instruction, 0), inputAt(instruction, 1)];
  const { output } = instruction;
  switch (instruction.op) {
    case 'conv2d': {
      const windows = windowsOf(first, second, instruction.shape, instruction.params);
      return (addressOf) => convolve(arena, windows, addressOf(a), addressOf(b), addressOf(output));
    }
    case 'conv2dInput': {
      const windows = windowsOf(instruction.shape, second, first, instruction.params);
      return (addressOf) =>
        convolveBack(arena, windows, addressOf(a), addressOf(b), addressOf(output));
    }
    default: {
      const windows = windowsOf(first, instruction.shape, second, instruction.params);
      return (addressOf) =>
        sumOfFilters(arena, windows, addressOf(a), addressOf(b), addressOf(output));
    }
  }
};

function windowsOf(x: Shape, weight: Shape, y: Shape, params: Conv2dParams): Windows {
  const [images = 1, , height = 1, width = 1] = x;
  const [filters = 1, channels = 1, rows = 1, columns = 1] = weight;
  const [, , outputHeight = 1, outputWidth = 1] = y;
  const { groups } = params;
  return {
    images,
    groups,
    channels,
    filters: filters / groups,
    height,
    width,
    kernel: [rows, columns],
    output: [outputHeight, outputWidth],
    params,
  };
}

/**
 * The addresses of the operands of one product, and what computes it. The product belongs to one image and one group.
 */
interface Part {
  readonly x: number;
  readonly weight: number;
  readonly y: number;
  readonly image: number;
  readonly columns: number;
  readonly packed: number;
  readonly multiplier: Multiplier;
}

/** Calls `body` for each image and group, with memory for its columns. */
function eachPart(
  arena: Arena,
  windows: Windows,
  [x, weight, y]: readonly [number, number, number],
  body: (part: Part) => void,
): void {
  const { images, groups, channels, filters, height, width, output } = windows;
  const terms = termsOf(windows);
  const places = output[0] * output[1];
  const multiplier = new Multiplier(arena.memory);
  const sides = [filters, terms, places];
  const most = Math.max(...sides);
  const packed = arena.alloc(packedBytesOf({ rows: most, columns: most, depth: most }));
  const columns = arena.alloc(ELEMENT_BYTES * terms * places);
  for (let image = 0; image < images; image++) {
    for (let group = 0; group < groups; group++) {
      const at = image * groups + group;
      body({
        x: x + ELEMENT_BYTES * at * channels * height * width,
        weight: weight + ELEMENT_BYTES * group * filters * terms,
        y: y + ELEMENT_BYTES * at * filters * places,
        image,
        columns: columns.byteOffset,
        packed: packed.byteOffset,
        multiplier,
      });
    }
  }
  arena.free(columns);
  arena.free(packed);
}

const termsOf = ({ channels, kernel }: Windows): number => channels * kernel[0] * kernel[1];

function convolve(arena: Arena, windows: Windows, x: number, weight: number, y: number): void {
  const terms = termsOf(windows);
  const places = windows.output[0] * windows.output[1];
  eachPart(arena, windows, [x, weight, y], (part) => {
    writeColumns(arena.memory, windows, part);
    multiply(part, {
      rows: windows.filters,
      columns: places,
      depth: terms,
      left: { address: part.weight, rowStride: terms, columnStride: 1 },
      right: { address: part.columns, rowStride: places, columnStride: 1 },
      result: { address: part.y, rowStride: places },
    });
  });
}

function convolveBack(
  arena: Arena,
  windows: Windows,
  dy: number,
  weight: number,
  dx: number,
): void {
  const { images, groups, channels, height, width } = windows;
  const terms = termsOf(windows);
  const places = windows.output[0] * windows.output[1];
  const count = images * groups * channels * height * width;
  viewAt(arena.memory, 'f32', dx, count).fill(0);
  eachPart(arena, windows, [dx, weight, dy], (part) => {
    multiply(part, {
      rows: terms,
      columns: places,
      depth: windows.filters,
      left: { address: part.weight, rowStride: 1, columnStride: terms },
      right: { address: part.y, rowStride: places, columnStride: 1 },
      result: { address: part.columns, rowStride: places },
    });
    addColumns(arena.memory, windows, part);
  });
}

function sumOfFilters(arena: Arena, windows: Windows, x: number, dy: number, dw: number): void {
  const terms = termsOf(windows);
  const places = windows.output[0] * windows.output[1];
  eachPart(arena, windows, [x, dw, dy], (part) => {
    writeColumns(arena.memory, windows, part);
    const result = { address: part.weight, rowStride: terms };
    multiply(part, {
      rows: windows.filters,
      columns: terms,
      depth: places,
      left: { address: part.y, rowStride: places, columnStride: 1 },
      right: { address: part.columns, rowStride: 1, columnStride: places },
      result,
      addend: part.image === 0 ? null : result,
    });
  });
}

function multiply(
  { multiplier, packed }: Part,
  product: Omit<Multiplication, 'scale' | 'addend'> & Partial<Pick<Multiplication, 'addend'>>,
): void {
  multiplier.run({ scale: 1, addend: null, ...product }, packed);
}

/**
 * Writes the elements of each window to the matrix of columns, [channels * kernel, places]. Elements outside the image
 * are zeros.
 */
function writeColumns(memory: WebAssembly.Memory, windows: Windows, part: Part): void {
  const { x, columns } = arraysOf(memory, windows, part);
  columns.fill(0);
  eachRun(windows, (column, from, count, stride) => {
    if (stride === 1) {
      for (let index = 0; index < count; index++) columns[column + index] = x[from + index] ?? 0;
    } else {
      for (let index = 0; index < count; index++) {
        columns[column + index] = x[from + index * stride] ?? 0;
      }
    }
  });
}

/** Does the opposite: each element of the image gets the sum of all elements of columns that it stands for. */
function addColumns(memory: WebAssembly.Memory, windows: Windows, part: Part): void {
  const { x, columns } = arraysOf(memory, windows, part);
  eachRun(windows, (column, to, count, stride) => {
    for (let index = 0; index < count; index++) {
      const at = to + index * stride;
      x[at] = (x[at] ?? 0) + (columns[column + index] ?? 0);
    }
  });
}

function arraysOf(
  memory: WebAssembly.Memory,
  windows: Windows,
  part: Part,
): { readonly x: Float32Array; readonly columns: Float32Array } {
  const { channels, height, width, output } = windows;
  return {
    x: viewAt(memory, 'f32', part.x, channels * height * width),
    columns: viewAt(memory, 'f32', part.columns, termsOf(windows) * output[0] * output[1]),
  };
}

/**
 * Calls `body` for runs of adjacent places in columns, and the elements of the image that they stand for. These are
 * `stride` apart.
 */
function eachRun(
  { channels, height, width, kernel, output, params }: Windows,
  body: (column: number, element: number, count: number, stride: number) => void,
): void {
  const [strideY, strideX] = params.stride;
  const [paddingY, paddingX] = params.padding;
  const [dilationY, dilationX] = params.dilation;
  const [outputHeight, outputWidth] = output;
  const places = outputHeight * outputWidth;
  for (let term = 0; term < elementCount([channels, ...kernel]); term++) {
    const channel = Math.floor(term / (kernel[0] * kernel[1]));
    const kernelY = Math.floor(term / kernel[1]) % kernel[0];
    const shift = (term % kernel[1]) * dilationX - paddingX;
    // These are the places whose element lies within the row.
    const first = Math.max(0, Math.ceil(-shift / strideX));
    const end = Math.min(outputWidth, Math.floor((width - 1 - shift) / strideX) + 1);
    if (first >= end) continue;
    for (let row = 0; row < outputHeight; row++) {
      const y = row * strideY + kernelY * dilationY - paddingY;
      if (y < 0 || y >= height) continue;
      const element = (channel * height + y) * width + first * strideX + shift;
      body(term * places + row * outputWidth + first, element, end - first, strideX);
    }
  }
}
