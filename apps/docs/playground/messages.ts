/** The message that gives a worker its program. Ranks also get other messages, so it has a field name of its own. */
export interface ProgramMessage {
  readonly program: string;
}

/** The greatest number of lines that the page shows. If a program prints more, the last ones are shown. */
export const MOST_LINES = 1000;

/** A line that the program has printed. */
export interface PrintedLine {
  readonly level: 'log' | 'error';
  readonly text: string;
}

/** A message of the worker about the program. */
export type WorkerMessage =
  | { readonly playground: 'lines'; readonly lines: readonly PrintedLine[] }
  | { readonly playground: 'failed'; readonly text: string }
  | { readonly playground: 'end' };

export function isProgram(data: unknown): data is ProgramMessage {
  return typeof data === 'object' && data !== null && 'program' in data;
}

export function isWorkerMessage(data: unknown): data is WorkerMessage {
  return typeof data === 'object' && data !== null && 'playground' in data;
}
