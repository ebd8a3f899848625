import { ProtobufWriter } from '@shardwise/core/base';

/** The numbers of TensorProto.DataType. */
export const tensorTypes = {
  f32: 1,
  u8: 2,
  u16: 4,
  i32: 6,
  i64: 7,
  bool: 9,
  f16: 10,
  f64: 11,
  bf16: 16,
} as const;

export type TensorType = keyof typeof tensorTypes;

export type Attribute =
  | { readonly int: number }
  | { readonly ints: readonly number[] }
  | { readonly float: number }
  | { readonly string: string };

export interface OnnxNode {
  /** What errors of a run call the node. Default: none. */
  readonly name?: string;
  readonly op: string;
  /** '' stands for the standard operator set. */
  readonly domain: '' | 'com.microsoft';
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, Attribute>>;
}

interface OnnxValue {
  readonly name: string;
  readonly type: TensorType;
  /** A size that is NaN may be any size. A string is the name of a size that may be any. */
  readonly shape: readonly (number | string)[];
}

interface OnnxTensor {
  readonly name: string;
  readonly type: TensorType;
  readonly shape: readonly number[];
}

/** Where the elements of a tensor lie in a file beside the model. Offset and length are in bytes. */
export interface ExternalData {
  readonly location: string;
  readonly offset: number;
  readonly length: number;
}

/** Little-endian elements, here or in another file, or sizes that nodes take as a tensor of i64. */
export type OnnxInitializer =
  | (OnnxTensor & { readonly bytes: Uint8Array })
  | (OnnxTensor & { readonly external: ExternalData })
  | { readonly name: string; readonly sizes: readonly number[] };

export interface OnnxGraph {
  readonly nodes: readonly OnnxNode[];
  readonly initializers: readonly OnnxInitializer[];
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
}

/** The IR version that introduced operator set 21. */
const IR_VERSION = 10;
const OPSET = 21;
/** The version of the operator set `com.microsoft`. */
const RUNTIME_OPSET = 1;
/** The number of TensorProto.DataLocation for elements in another file. */
const EXTERNAL = 1;

/** The numbers of AttributeProto.AttributeType. */
const attributeTypes = { float: 1, int: 2, string: 3, ints: 7 } as const;

/** Encodes a graph as a ModelProto. Field numbers are those of onnx.proto3. */
export function encodeModel(graph: OnnxGraph): Uint8Array {
  return writeModel(graph).finish();
}

/** Does what `encodeModel` does, and returns the bytes in parts, so that large weights are not copied. */
export function modelParts(graph: OnnxGraph): readonly Uint8Array[] {
  return writeModel(graph).parts();
}

function writeModel(graph: OnnxGraph): ProtobufWriter {
  const model = new ProtobufWriter();
  model.int(1, IR_VERSION);
  model.string(2, 'shardwise');
  model.message(7, (writer) => writeGraph(writer, graph));
  const writeOpset = (domain: OnnxNode['domain'], version: number): void =>
    model.message(8, (opset) => {
      opset.string(1, domain);
      opset.int(2, version);
    });
  writeOpset('', OPSET);
  // Other runtimes than ONNX Runtime refuse a model that names its operator set, even if no node is of it.
  if (graph.nodes.some(({ domain }) => domain !== '')) writeOpset('com.microsoft', RUNTIME_OPSET);
  return model;
}

function writeGraph(writer: ProtobufWriter, graph: OnnxGraph): void {
  for (const node of graph.nodes) writer.message(1, (inner) => writeNode(inner, node));
  writer.string(2, 'graph');
  for (const tensor of graph.initializers) {
    writer.message(5, (inner) => writeTensor(inner, tensor));
  }
  for (const value of graph.inputs) writer.message(11, (inner) => writeValue(inner, value));
  for (const value of graph.outputs) writer.message(12, (inner) => writeValue(inner, value));
}

function writeNode(writer: ProtobufWriter, node: OnnxNode): void {
  for (const name of node.inputs) writer.string(1, name);
  for (const name of node.outputs) writer.string(2, name);
  if (node.name !== undefined) writer.string(3, node.name);
  writer.string(4, node.op);
  for (const [name, attribute] of Object.entries(node.attributes)) {
    writer.message(5, (inner) => writeAttribute(inner, name, attribute));
  }
  writer.string(7, node.domain);
}

function writeAttribute(writer: ProtobufWriter, name: string, attribute: Attribute): void {
  writer.string(1, name);
  if ('float' in attribute) {
    writer.float(2, attribute.float);
    writer.int(20, attributeTypes.float);
  } else if ('int' in attribute) {
    writer.int(3, attribute.int);
    writer.int(20, attributeTypes.int);
  } else if ('string' in attribute) {
    writer.string(4, attribute.string);
    writer.int(20, attributeTypes.string);
  } else {
    for (const value of attribute.ints) writer.int(8, value);
    writer.int(20, attributeTypes.ints);
  }
}

function writeTensor(writer: ProtobufWriter, tensor: OnnxInitializer): void {
  if ('sizes' in tensor) {
    const { name, sizes } = tensor;
    const bytes = sizeBytes(sizes);
    return writeTensor(writer, { name, type: 'i64', shape: [sizes.length], bytes });
  }
  for (const size of tensor.shape) writer.int(1, size);
  writer.int(2, tensorTypes[tensor.type]);
  writer.string(8, tensor.name);
  if ('bytes' in tensor) return writer.bytes(9, tensor.bytes);
  for (const [key, value] of Object.entries(tensor.external)) {
    writer.message(13, (entry) => {
      entry.string(1, key);
      entry.string(2, String(value));
    });
  }
  writer.int(14, EXTERNAL);
}

/** Returns sizes as the elements of a tensor of i64. */
export function sizeBytes(sizes: readonly number[]): Uint8Array {
  return new Uint8Array(BigInt64Array.from(sizes.map(BigInt)).buffer);
}

function writeValue(writer: ProtobufWriter, value: OnnxValue): void {
  writer.string(1, value.name);
  writer.message(2, (type) =>
    type.message(1, (tensor) => {
      tensor.int(1, tensorTypes[value.type]);
      tensor.message(2, (shape) => {
        for (const size of value.shape) {
          shape.message(1, (dim) => {
            if (typeof size === 'string') dim.string(2, size);
            else if (!Number.isNaN(size)) dim.int(1, size);
          });
        }
      });
    }),
  );
}
