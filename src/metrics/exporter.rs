//! Sends what was measured, by `opentelemetry-otlp` over the mirror's transports.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, Protocol as Otlp, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tonic::metadata::MetadataMap;

use super::pipeline::State;
use crate::mirror::{Answer, Compression, Metered, Protocol, Resolved, Transport, channel, first};

/// How often it is looked whether a shutdown's time is up.
const TICK: Duration = Duration::from_millis(20);

/// Runs on the reader's thread, which is nobody else's: it may block there.
///
/// The exporter of `opentelemetry-otlp` and the connections under it need a runtime that is driven.
/// Each time gets its own, for as long as it takes: between two times, a minute apart, there is
/// nothing that could go stale, and no second thread.
pub(super) struct Exporter {
    metered: Metered,
    state: Arc<State>,
}

impl Exporter {
    pub(super) fn new(metered: Metered, state: Arc<State>) -> Self {
        Self { metered, state }
    }

    fn send(&self, metrics: &ResourceMetrics) -> Result<(), String> {
        if self.state.is_late() {
            return Err("no time is left".to_owned());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("a runtime: {error}"))?;
        let sent = runtime.block_on(first(self.export(metrics), self.too_late()));
        // A name that is being looked up can't be called back; it is not waited for.
        runtime.shutdown_background();
        sent
    }

    async fn export(&self, metrics: &ResourceMetrics) -> Result<(), String> {
        let why = Arc::new(Mutex::new(None));
        let exporter = self.connect(&why)?;
        let sent = exporter.export(metrics).await;
        sent.map_err(|error| {
            let why = why.lock().unwrap_or_else(PoisonError::into_inner).take();
            why.unwrap_or_else(|| error.to_string())
        })
    }

    fn connect(&self, why: &Arc<Mutex<Option<String>>>) -> Result<MetricExporter, String> {
        let to = &self.metered.to;
        let builder = MetricExporter::builder().with_temporality(self.metered.temporality);
        let built = match to.protocol {
            Protocol::Grpc => {
                let builder = builder
                    .with_tonic()
                    .with_channel(channel(to).map_err(|error| error.to_string())?)
                    .with_interceptor(headers(to))
                    .with_timeout(to.timeout);
                match to.compression {
                    Compression::None => builder,
                    Compression::Gzip => {
                        builder.with_compression(opentelemetry_otlp::Compression::Gzip)
                    }
                    Compression::Zstd => {
                        builder.with_compression(opentelemetry_otlp::Compression::Zstd)
                    }
                }
                .build()
            }
            Protocol::HttpProtobuf | Protocol::HttpJson => builder
                .with_http()
                .with_protocol(Otlp::HttpBinary)
                .with_endpoint(to.uri.to_string())
                .with_http_client(Client {
                    transport: Transport::connect(to).map_err(|error| error.to_string())?,
                    why: Arc::clone(why),
                })
                .with_timeout(to.timeout)
                .build(),
        };
        built.map_err(|error: ExporterBuildError| error.to_string())
    }

    /// Until an attempt has taken as long as it may, or a shutdown's time is up.
    async fn too_late(&self) -> Result<(), String> {
        let timeout = self.metered.to.timeout;
        let began = Instant::now();
        while began.elapsed() < timeout && !self.state.is_late() {
            tokio::time::sleep(TICK).await;
        }
        Err(format!("no answer within {:?}", began.elapsed()))
    }
}

/// The headers that hold, and none that the exporter finds in the environment by itself.
fn headers(
    to: &Resolved,
) -> impl FnMut(tonic::Request<()>) -> Result<tonic::Request<()>, tonic::Status> + Clone + use<> {
    let headers = MetadataMap::from_headers(to.headers.clone());
    move |mut request| {
        *request.metadata_mut() = headers.clone();
        Ok(request)
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let sent = crate::mirror::muted(|| self.send(metrics));
        let state = &self.state;
        let counter = match &sent {
            Ok(()) => &state.sent,
            Err(_) => &state.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        state.note(sent.err());
        // Health tells it. The reader would do nothing but log it, as somebody else's.
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.metered.temporality
    }
}

/// The mirror's way over HTTP, with its TLS, headers and compression. Of a request it takes the body:
/// all else is decided.
#[derive(Debug)]
struct Client {
    transport: Transport,
    /// What went wrong, which the exporter keeps to itself.
    why: Arc<Mutex<Option<String>>>,
}

#[tonic::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let why = match self.transport.send(request.into_body()).await {
            Answer::Http {
                status,
                headers,
                body,
            } => {
                let mut response = Response::new(body);
                *response.status_mut() = status;
                *response.headers_mut() = headers;
                return Ok(response);
            }
            Answer::Failed { why } => why,
            Answer::Grpc(_) => "an answer over gRPC".to_owned(),
        };
        *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.clone());
        Err(why.into())
    }
}
