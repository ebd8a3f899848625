/** How events are sent. */
export interface EventStreamOptions {
  /** A client that reads nothing for so long is cut off. */
  readonly stalledMs: number;
  /** Called when the client has gone, or is cut off. */
  readonly onCancel: () => void;
}

/** An event as its text. */
export function eventOf(data: object | '[DONE]', name?: string): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${name === undefined ? '' : `event: ${name}\n`}data: ${text}\n\n`;
}

/**
 * Sends events as they come (server-sent events). The next one is only taken when the client has read those before, so
 * that a slow reader costs no memory.
 */
export function eventStream(
  events: AsyncGenerator<string, void, void>,
  { stalledMs, onCancel }: EventStreamOptions,
): Response {
  const encoder = new TextEncoder();
  let stalled: NodeJS.Timeout | undefined;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      clearTimeout(stalled);
      const { done, value } = await events.next();
      if (done === true) return controller.close();
      controller.enqueue(encoder.encode(value));
      stalled = setTimeout(() => {
        controller.error(new Error('The client reads nothing.'));
        onCancel();
      }, stalledMs);
    },
    cancel() {
      clearTimeout(stalled);
      onCancel();
    },
  });
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' },
  });
}
