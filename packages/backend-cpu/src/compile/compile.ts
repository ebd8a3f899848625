import { type Program, Sized, type SizedProgram, whereUsual } from '@shardwise/core/spec';
import { hasGivenAttributes, sessionModel } from '../onnx/session-model.ts';
import type { Sessions } from '../onnx/sessions.ts';
import type { LoopCode } from '../loops/loop-machine.ts';
import type { Products } from '../products/products.ts';
import { analyse, type Analysis } from './analyse.ts';
import { CpuExecutable, type Host } from './executable.ts';
import { link, type LinkTarget, type SessionLeases } from './link.ts';
import { formatPiece } from './onnx-model.ts';
import type { OwnProducts } from './product-step.ts';
import { locate } from './storage.ts';

/** What executables share, what makes their products, and what runs their loops; null for WebAssembly alone. */
export interface CompileHost extends Host {
  readonly products: Products;
  readonly loops: LoopCode | null;
}

/** Compiles a program to sessions and kernels, in dependency order. */
export async function compile(
  program: Program,
  host: CompileHost,
  sessions: Sessions,
): Promise<CpuExecutable> {
  const analysis = analyse(program, ownProducts(host, false));
  const leases = acquire(analysis, analysis, sessions);
  const parts = link(analysis, analysis, leases, targetOf(host));
  return new CpuExecutable(host, locate(analysis.storage), leases, () => parts);
}

/** Compiles a program of any sizes. Undefined where its structure depends on the sizes. */
export async function compileSized(
  program: SizedProgram,
  host: CompileHost,
  sessions: Sessions,
): Promise<CpuExecutable | undefined> {
  const { symbols } = program;
  const sampleAt = whereUsual(
    symbols,
    (sizes) => program.at(sizes),
    ({ inputs, instructions }) => [...inputs, ...instructions],
  );
  const own = ownProducts(host, true);
  const analysis = Sized.of(symbols, (sizes) => analyse(sampleAt(sizes), own));
  if (analysis === undefined) return undefined;
  // Numbers that depend on the sizes are NaN in it.
  const pattern = analysis.pattern();
  const isGiven = pattern.pieces.some(
    (piece) => piece.kind === 'onnx' && hasGivenAttributes(piece.graph),
  );
  if (isGiven) return undefined;
  const leases = acquire(analysis.at(program.symbols.map(({ seen }) => seen)), pattern, sessions);
  const locations = locate(analysis.most().storage);
  const target = targetOf(host);
  return new CpuExecutable(host, locations, leases, (sizes) =>
    link(analysis.at(sizes), pattern, leases, target),
  );
}

function ownProducts({ products }: CompileHost, thin: boolean): OwnProducts | null {
  return products.own && { ...products.own, thin };
}

function targetOf({ arena, products, loops }: CompileHost): LinkTarget {
  return { memory: arena.memory, products, loops };
}

/** The sessions of the pieces; null for kernels. */
function acquire(analysis: Analysis, pattern: Analysis, sessions: Sessions): SessionLeases {
  const leases: (SessionLeases[number] | null)[] = [];
  try {
    for (const [index, piece] of pattern.pieces.entries()) {
      const known = analysis.pieces[index];
      const describe = (): string => (known?.kind === 'onnx' ? formatPiece(known.description) : '');
      leases.push(
        piece.kind === 'onnx' ? sessions.acquire(sessionModel(piece.graph), describe) : null,
      );
    }
  } catch (error) {
    for (const lease of leases) lease?.release();
    throw error;
  }
  return leases;
}
