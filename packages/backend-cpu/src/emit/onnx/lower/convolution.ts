import type { Conv2dParams } from '@shardwise/core/spec';
import { inputAt, type InstructionMap } from '../../../program/instruction.ts';
import type { Attribute } from '../model.ts';
import type { GraphBuilder } from '../graph-builder.ts';
import type { Operand } from '../operand.ts';
import { exactOf, type Lowerings } from './lowering.ts';

function windowAttributes({
  stride,
  padding,
  dilation,
  groups,
}: Conv2dParams): Record<'strides' | 'pads' | 'dilations' | 'group', Attribute> {
  return {
    strides: { ints: stride },
    pads: { ints: [...padding, ...padding] },
    dilations: { ints: dilation },
    group: { int: groups },
  };
}

/**
 * The gradient of the input is a transposed convolution. `output_padding` is the size that the stride left over at the
 * end.
 */
function inputGradient(graph: GraphBuilder, instruction: InstructionMap['conv2dInput']): Operand {
  const { params } = instruction;
  const dy = graph.type(inputAt(instruction, 0)).shape;
  const w = graph.type(inputAt(instruction, 1)).shape;
  const leftOver = ([0, 1] as const).map((axis) => {
    const [size = 0, outputs = 0, kernel = 0] = [instruction.shape, dy, w].map((s) => s[axis + 2]);
    const reached =
      (outputs - 1) * params.stride[axis] -
      2 * params.padding[axis] +
      params.dilation[axis] * (kernel - 1) +
      1;
    return size - reached;
  });
  const attributes = { ...windowAttributes(params), output_padding: { ints: leftOver } };
  const operands = [exactOf(graph, instruction, 0), exactOf(graph, instruction, 1)];
  return { name: graph.emit('ConvTranspose', operands, attributes), shape: instruction.shape };
}

/**
 * The gradient of the weight is a convolution of x with dy as the kernel. Images become channels, channels become
 * images, and stride and dilation change places. Per group g: x [C/g, g*N, H, W], dy [O, N, H', W'] -> [C/g, O, R, S].
 */
function weightGradient(graph: GraphBuilder, instruction: InstructionMap['conv2dWeight']): Operand {
  const { stride, padding, dilation, groups } = instruction.params;
  const [images = 0, channels = 0, height = 0, width = 0] = graph.type(
    inputAt(instruction, 0),
  ).shape;
  const [outputs = 0, perGroup = 0, kernelHeight = 0, kernelWidth = 0] = instruction.shape;
  const swapPlanes = { perm: { ints: [1, 0, 2, 3] } };

  const grouped = [images, groups, channels / groups, height, width];
  const split = graph.emit('Reshape', [exactOf(graph, instruction, 0), graph.int64s(grouped)]);
  const turned = graph.emit('Transpose', [split], { perm: { ints: [2, 1, 0, 3, 4] } });
  const asImages = graph.int64s([perGroup, groups * images, height, width]);
  const x = graph.emit('Reshape', [turned, asImages]);
  const dy = graph.emit('Transpose', [exactOf(graph, instruction, 1)], swapPlanes);

  const attributes = windowAttributes({ stride: dilation, dilation: stride, padding, groups });
  const windows = graph.emit('Conv', [x, dy], attributes);
  // Rows and columns at the end of x that the stride skipped give windows beyond the kernel.
  const kernel = graph.emit('Slice', [
    windows,
    graph.int64s([0, 0]),
    graph.int64s([kernelHeight, kernelWidth]),
    graph.int64s([2, 3]),
  ]);
  const name = graph.emit('Transpose', [kernel], swapPlanes);
  return { name, shape: [outputs, perGroup, kernelHeight, kernelWidth] };
}

export const convolution: Lowerings<'conv2d' | 'conv2dInput' | 'conv2dWeight'> = {
  conv2d: (graph, instruction) => {
    const operands = [exactOf(graph, instruction, 0), exactOf(graph, instruction, 1)];
    const name = graph.emit('Conv', operands, windowAttributes(instruction.params));
    return { name, shape: instruction.shape };
  },
  conv2dInput: inputGradient,
  conv2dWeight: weightGradient,
};
