import { type Program, Sized, type SizedProgram, specialSizes } from '@shardwise/core/spec';
import { hasGivenAttributes, sessionModel } from '../onnx/session-model.ts';
import type { Sessions } from '../onnx/sessions.ts';
import { analyse, type Analysis } from './analyse.ts';
import { CpuExecutable, type Host } from './executable.ts';
import { link, type SessionLeases } from './link.ts';
import { formatPiece } from './onnx-model.ts';
import { locate } from './storage.ts';

/** Compiles a program to sessions and kernels, in dependency order. */
export async function compile(
  program: Program,
  host: Host,
  sessions: Sessions,
): Promise<CpuExecutable> {
  const analysis = analyse(program);
  const leases = acquire(analysis, analysis, sessions);
  const parts = link(analysis, analysis, leases, host.arena.memory);
  return new CpuExecutable(host, locate(analysis.storage), leases, () => parts);
}

/** Compiles a program of any sizes. Undefined where its structure depends on the sizes. */
export async function compileSized(
  program: SizedProgram,
  host: Host,
  sessions: Sessions,
): Promise<CpuExecutable | undefined> {
  const specialAt = ({ inputs, instructions }: Program): string =>
    specialSizes([...inputs, ...instructions]);
  const usual = specialAt(program.at(program.symbols.map(({ seen }) => seen)));
  const analysis = Sized.of(program.symbols, (sizes) => {
    const sample = program.at(sizes);
    if (specialAt(sample) !== usual) throw new RangeError('sizes that are special');
    return analyse(sample);
  });
  if (analysis === undefined) return undefined;
  // Numbers that depend on the sizes are NaN in it.
  const pattern = analysis.pattern();
  const isGiven = pattern.pieces.some(
    (piece) => piece.kind === 'onnx' && hasGivenAttributes(piece.graph),
  );
  if (isGiven) return undefined;
  const leases = acquire(analysis.at(program.symbols.map(({ seen }) => seen)), pattern, sessions);
  const locations = locate(analysis.most().storage);
  const { memory } = host.arena;
  return new CpuExecutable(host, locations, leases, (sizes) =>
    link(analysis.at(sizes), pattern, leases, memory),
  );
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
