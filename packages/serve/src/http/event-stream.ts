import { type ApiError, apiErrorOf } from './api-error.ts';

/** How events are sent. */
export interface EventStreamOptions {
  /** A client that reads nothing for so long is cut off. */
  readonly stalledMs: number;
  /** Called when the client has gone, or is cut off. */
  readonly onCancel: () => void;
  /** Called with an error that is not the fault of the request. */
  readonly onError: (error: unknown) => void;
}

/** An event as its text. */
export function eventOf(data: object | '[DONE]', name?: string): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`;
}

/**
 * Sends events as they come (server-sent events). The next one is only taken when the client has read those before, so
 * that a slow reader costs no memory. An error is the last event, because the status has been sent before.
 */
export function eventStream(
  events: AsyncGenerator<string, void, void>,
  { stalledMs, onCancel, onError }: EventStreamOptions,
): Response {
  const encoder = new TextEncoder();
  const told = (error: unknown): ApiError => {
    const own = apiErrorOf(error);
    if (own.status >= 500 && !isCanceled) onError(error);
    return own;
  };
  let isCanceled = false;
  let stalled: NodeJS.Timeout | undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      clearTimeout(stalled);
      const { value, isLast } = await events.next().then(
        (next) => ({ value: next.value, isLast: next.done === true }),
        (error: unknown) => ({ value: eventOf(told(error).body()), isLast: true }),
      );
      if (isCanceled) return;
      if (value !== undefined) controller.enqueue(encoder.encode(value));
      if (isLast) return controller.close();
      stalled = setTimeout(() => {
        controller.error(new Error('The client reads nothing.'));
        onCancel();
      }, stalledMs);
    },
    cancel() {
      isCanceled = true;
      clearTimeout(stalled);
      onCancel();
    },
  });
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
  });
}
