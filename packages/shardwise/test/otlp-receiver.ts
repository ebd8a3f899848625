import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { expect } from 'vitest';
import { z } from 'zod';

const attributes = z
  .array(z.object({ key: z.string(), value: z.object({ stringValue: z.string().optional() }) }))
  .transform((list) => Object.fromEntries(list.map(({ key, value }) => [key, value.stringValue])));
const point = z.object({
  attributes,
  timeUnixNano: z.string(),
  asDouble: z.number().optional(),
  count: z.number().optional(),
  sum: z.number().optional(),
});
const points = z.object({ dataPoints: z.array(point) });
const monotonic = z.object({ isMonotonic: z.literal(true), aggregationTemporality: z.literal(2) });
/** OTLP's JSON form of a request, of which unknown kinds of metrics are mistakes. */
const request = z.object({
  resourceMetrics: z.array(
    z.object({
      resource: z.object({ attributes }),
      scopeMetrics: z.array(
        z.object({
          scope: z.object({ name: z.literal('shardwise') }),
          metrics: z.array(
            z.union([
              z.object({ name: z.string(), unit: z.string(), gauge: points }),
              z.object({ name: z.string(), unit: z.string(), sum: points.and(monotonic) }),
              z.object({ name: z.string(), unit: z.string(), histogram: points }),
            ]),
          ),
        }),
      ),
    }),
  ),
});

/** A receiver of OTLP by HTTP, as a collector of OpenTelemetry has it. */
export class OtlpReceiver {
  readonly requests: z.infer<typeof request>[] = [];
  readonly #server: Server;
  status = 200;

  constructor() {
    this.#server = createServer((message, answer) => {
      const chunks: Buffer[] = [];
      message.on('data', (chunk: Buffer) => chunks.push(chunk));
      message.on('end', () => {
        expect([message.method, message.url]).toEqual(['POST', '/v1/metrics']);
        expect(message.headers['content-type']).toBe('application/json');
        if (this.status === 200) {
          this.requests.push(request.parse(JSON.parse(Buffer.concat(chunks).toString())));
        }
        answer.writeHead(this.status, { 'content-type': 'application/json' }).end('{}');
      });
    });
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('it has no port');
    return `http://127.0.0.1:${address.port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  /** The last values, as `name{attributes} unit`. */
  get values(): Readonly<Record<string, number | undefined>> {
    const metrics = this.requests.at(-1)?.resourceMetrics[0]?.scopeMetrics[0]?.metrics ?? [];
    return Object.fromEntries(
      metrics.flatMap((metric) => {
        const data =
          'gauge' in metric ? metric.gauge : 'sum' in metric ? metric.sum : metric.histogram;
        return data.dataPoints.map((each) => {
          const labels = Object.values(each.attributes).join();
          return [
            `${metric.name}${labels === '' ? '' : `{${labels}}`} ${metric.unit}`,
            each.asDouble ?? each.sum,
          ];
        });
      }),
    );
  }
}
