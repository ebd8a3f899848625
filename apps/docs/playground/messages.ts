/** The page gives a worker the program that it runs. Under a name of its own: ranks hear other messages, too. */
export interface ProgramMessage {
  readonly program: string;
}

/** Lines that the page shows; of a program that prints more, the last ones. */
export const MOST_LINES = 1000;

/** A line that the program has printed. */
export interface PrintedLine {
  readonly level: 'log' | 'error';
  readonly text: string;
}

/** What the worker says of it. */
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
