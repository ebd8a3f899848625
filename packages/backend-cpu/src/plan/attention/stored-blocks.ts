import { isPagedInstruction } from '../../program/attention-instructions.ts';
import { isWidening } from '../../program/half-casts.ts';
import { inputAt, type CpuInstruction, valueAt } from '../../program/instruction.ts';
import type { Rewriter } from '../../program/rewriter.ts';

/** The bytes of keys or values, and a scale for each row of them. */
interface ScaledBytes {
  readonly bytes: number;
  readonly scales: number;
}

/** What is subtracted from bytes before they are scaled. */
const BYTE_OF_ZERO = 128;

/**
 * Makes attention whose keys and values lie in blocks read them as they are stored: in 16 bits, or as bytes with a scale
 * for each row, whose scales become additional inputs. They are then converted block by block, and never all of them.
 */
export function readStored(instruction: CpuInstruction, rewriter: Rewriter): CpuInstruction {
  if (!isPagedInstruction(instruction)) return instruction;
  const [q, k, v] = [0, 1, 2].map((index) => inputAt(instruction, index));
  const rest = instruction.inputs.slice(3);
  if (q === undefined || k === undefined || v === undefined) return instruction;
  const [keys, values] = [scaledBytes(k, rewriter), scaledBytes(v, rewriter)];
  if (keys !== undefined && values !== undefined) {
    const inputs = [q, keys.bytes, values.bytes, ...rest, keys.scales, values.scales];
    return { ...instruction, inputs };
  }
  return { ...instruction, inputs: [q, belowCast(k, rewriter), belowCast(v, rewriter), ...rest] };
}

function belowCast(id: number, rewriter: Rewriter): number {
  const made = rewriter.producer(id);
  return made !== undefined && isWidening(made, rewriter.values) ? inputAt(made, 0) : id;
}

/** The bytes and scales of (bytes - 128) * scales, where all features of a row have one scale. */
function scaledBytes(id: number, rewriter: Rewriter): ScaledBytes | undefined {
  const { values } = rewriter;
  const scaled = rewriter.producer(id);
  if (scaled?.op !== 'mul') return undefined;
  const centred = rewriter.producer(inputAt(scaled, 0));
  const repeated = rewriter.producer(inputAt(scaled, 1));
  if (centred?.op !== 'sub' || repeated?.op !== 'expand') return undefined;
  const wide = rewriter.producer(inputAt(centred, 0));
  const zero = belowExpands(inputAt(centred, 1), rewriter);
  if (wide?.op !== 'cast' || zero?.op !== 'constant') return undefined;
  const [bytes, scales] = [inputAt(wide, 0), inputAt(repeated, 0)];
  const fits =
    zero.params.value === BYTE_OF_ZERO &&
    valueAt(values, bytes).dtype === 'u8' &&
    valueAt(values, scales).shape.at(-1) === 1;
  return fits ? { bytes, scales } : undefined;
}

function belowExpands(id: number, rewriter: Rewriter): CpuInstruction | undefined {
  const made = rewriter.producer(id);
  return made?.op === 'expand' ? belowExpands(inputAt(made, 0), rewriter) : made;
}
