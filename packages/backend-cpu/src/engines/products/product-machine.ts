import {
  type ExecutableMemory,
  NoCodeError,
  systemExecutableMemory,
} from '../../memory/executable-memory.ts';
import { requireBfmmla } from '../../emit/arm64/processor.ts';
import { type InstructionSet, instructionSets } from '../../emit/x64/instruction-sets.ts';
import {
  type ProcessorFeatures,
  processorFeatures,
  requireVectors,
  upTo,
  type VectorInstructions,
} from '../../emit/x64/processor.ts';
import { createArmProductCode } from '../../emit/arm64/products/product-code.ts';
import { createProductCode } from '../../emit/x64/products/product-code.ts';
import { wrongOf } from './try-products.ts';
import type { ProductCode } from '../../emit/products/product-code.ts';

/** The instructions that compute products, by the dtype of their operands. */
export interface ProductInstructions {
  /** NEON is for AArch64 processors. */
  readonly f32: VectorInstructions | 'NEON';
  /** AVX-512 and AVX2 multiply the values as f32 and give the bits of AVX512-BF16. BFMMLA is used with NEON. */
  readonly bf16: InstructionSet | 'BFMMLA';
}

/** How this thread computes matrix products: with our machine code, or not, and why not. */
export type ProductMachine =
  | { readonly kind: 'own'; readonly code: ProductCode; readonly instructions: ProductInstructions }
  | { readonly kind: 'none'; readonly reason: string };

const known = new Map<InstructionSet, ProductMachine>();

/**
 * Finds out how products are computed, once for each thread. Machine code uses no instructions that are newer than
 * `newest`.
 */
export function productMachine(newest: InstructionSet = instructionSets[0]): ProductMachine {
  const machine = known.get(newest) ?? findProductMachine(newest);
  known.set(newest, machine);
  return machine;
}

/**
 * Tries what this processor has, the newest instructions first. Leaves out instructions that compute wrong results or
 * that the system refuses, and warns about both.
 */
export function findProductMachine(
  newest: InstructionSet,
  memory: ExecutableMemory = systemExecutableMemory,
  create: typeof createProductCode = createProductCode,
): ProductMachine {
  try {
    if (process.arch === 'arm64') return findArmMachine(memory);
    const features = processorFeatures(memory);
    requireVectors(features);
    const wrong: string[] = [];
    const tried = new Set<string>();
    for (const set of instructionSets.slice(instructionSets.indexOf(newest))) {
      const used = upTo(set, features);
      const instructions = instructionsOf(used);
      if (tried.has(namesOf(instructions))) continue;
      tried.add(namesOf(instructions));
      const code = create(used, memory);
      const reason = wrongOf(code);
      if (reason !== undefined) {
        wrong.push(`by ${namesOf(instructions)} ${reason}`);
        continue;
      }
      if (wrong.length > 0) {
        notice(`products of matrices are made by ${namesOf(instructions)}, as ${wrong.join(', ')}`);
      }
      return { kind: 'own', code, instructions };
    }
    return unexpected(wrong.join(', '));
  } catch (error) {
    if (error instanceof NoCodeError) return none(error.message);
    return unexpected(error instanceof Error ? error.message : String(error));
  }
}

/** AArch64 has only one set of instructions, so `newest` does not apply. */
function findArmMachine(memory: ExecutableMemory): ProductMachine {
  requireBfmmla();
  const code = createArmProductCode(memory);
  const reason = wrongOf(code);
  if (reason !== undefined) return unexpected(reason);
  return { kind: 'own', code, instructions: { f32: 'NEON', bf16: 'BFMMLA' } };
}

function none(reason: string): ProductMachine {
  return { kind: 'none', reason };
}

/** Warns that ONNX Runtime computes the products, although the processor has all that machine code takes. */
function unexpected(reason: string): ProductMachine {
  notice(`ONNX Runtime makes products of matrices, as ${reason}`);
  return none(reason);
}

function notice(text: string): void {
  console.warn(`shardwise: ${text}`);
}

function namesOf({ f32, bf16 }: ProductInstructions): string {
  return f32 === bf16 ? f32 : `${f32} and ${bf16}`;
}

function instructionsOf(features: ProcessorFeatures): ProductInstructions {
  const f32 = requireVectors(features);
  return { f32, bf16: features.tiles ? 'AMX-BF16' : features.bf16 ? 'AVX512-BF16' : f32 };
}
