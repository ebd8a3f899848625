import { ApiError } from './api-error.ts';
import { type AppContext, type Call, requireRoom, servedModel } from './app-context.ts';
import type { EmbeddingBody } from './request-bodies.ts';

/** POST /v1/embeddings. */
export async function embeddings(
  context: AppContext,
  { body }: Call<EmbeddingBody>,
): Promise<Response> {
  const { embed } = servedModel(context, body.model);
  if (embed === null) {
    throw new ApiError(400, `The model '${body.model}' makes text, and no embeddings.`, {
      param: 'model',
    });
  }
  requireRoom(context.openEmbeddings.count, context.limits);
  context.openEmbeddings.count++;
  const { vectors, tokens } = await embed(inputsOf(body)).finally(
    () => context.openEmbeddings.count--,
  );
  const encode =
    body.encoding_format === 'base64' ? base64Of : (vector: Float32Array) => [...vector];
  const data = vectors.map((vector, index) => ({
    object: 'embedding',
    index,
    embedding: encode(vector),
  }));
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return Response.json({ object: 'list', data, model: body.model, usage });
}

function inputsOf({ input }: EmbeddingBody): readonly (string | readonly number[])[] {
  if (typeof input === 'string') return [input];
  const numbers = input.filter((each) => typeof each === 'number');
  return numbers.length > 0 ? [numbers] : input.filter((each) => typeof each !== 'number');
}

function base64Of({ buffer, byteOffset, byteLength }: Float32Array): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64');
}
