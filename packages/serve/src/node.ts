export { isLoopback } from './http/local-names.ts';
export { listen, type ListeningServer, type ListenOptions } from './http/listen.ts';
export { openAIApp, type OpenAIApp, type OpenAIAppOptions } from './http/openai-app.ts';
export { replicaApp, type ReplicaApp, type ReplicaAppOptions } from './replicas/replica-app.ts';
export type { Replica } from './replicas/replica-loads.ts';
export type { ServerLimits } from './http/app-context.ts';
export type { ServedModel, TextEmbedder } from './http/served-model.ts';
