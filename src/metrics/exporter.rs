//! Sends metrics with `opentelemetry-otlp` through the mirror's transport.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{MetricExporter, Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use prost::Message;
use tonic::Code;

use super::pipeline::State;
use crate::mirror::{Answer, MetricsConfig, Transport, muted, runtime};
use crate::trace::lock;

/// How often an export checks whether the shutdown deadline has passed.
const TICK: Duration = Duration::from_millis(20);

/// Exports on the thread of the SDK's reader, which may block.
///
/// Each export has a runtime of its own: exports are a minute apart, so a connection kept in between
/// would only go stale.
pub(super) struct Exporter {
    config: MetricsConfig,
    state: Arc<State>,
}

impl Exporter {
    pub(super) fn new(config: MetricsConfig, state: Arc<State>) -> Self {
        Self { config, state }
    }

    fn send(&self, metrics: &ResourceMetrics) -> Result<(), String> {
        if self.state.is_late() {
            return Err("the shutdown deadline has passed".to_owned());
        }
        let runtime = runtime().map_err(|error| format!("can't start a runtime: {error}"))?;
        let sent = runtime.block_on(async {
            tokio::select! {
                sent = self.export(metrics) => sent,
                late = self.too_late() => late,
            }
        });
        // Doesn't wait for a DNS lookup, which can't be cancelled.
        runtime.shutdown_background();
        sent
    }

    async fn export(&self, metrics: &ResourceMetrics) -> Result<(), String> {
        let to = &self.config.to;
        let why = Arc::new(Mutex::new(None));
        let client = Client {
            transport: Transport::connect(to).map_err(|error| error.to_string())?,
            why: Arc::clone(&why),
        };
        let exporter = MetricExporter::builder()
            .with_temporality(self.config.temporality)
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(to.uri.to_string())
            .with_http_client(client)
            .with_timeout(to.timeout)
            .build()
            .map_err(|error| error.to_string())?;
        exporter.export(metrics).await.map_err(|error| {
            let why = lock(&why).take();
            why.unwrap_or_else(|| error.to_string())
        })
    }

    /// Waits for the timeout of one export, or for the shutdown deadline.
    async fn too_late(&self) -> Result<(), String> {
        let timeout = self.config.to.timeout;
        let started = Instant::now();
        while started.elapsed() < timeout && !self.state.is_late() {
            tokio::time::sleep(TICK).await;
        }
        Err(format!("no answer within {:?}", started.elapsed()))
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        self.state.count(muted(|| self.send(metrics)));
        // Health reports errors; the SDK's reader would only log them.
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.config.temporality
    }
}

/// Sends the body of the exporter's requests with our own transport, TLS, headers and compression, over
/// gRPC too.
#[derive(Debug)]
struct Client {
    transport: Transport,
    /// The last error, which the exporter doesn't pass on.
    why: Arc<Mutex<Option<String>>>,
}

#[tonic::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (answer, why) = match self.transport.send(request.into_body()).await {
            Answer::Http { status, .. } if self.transport.is_grpc() => {
                (None, format!("HTTP {status}, which is not a gRPC answer"))
            }
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
            // Responses to metrics have the same fields as those to spans.
            Answer::Grpc(Ok(response)) => {
                return Ok(Response::new(response.encode_to_vec().into()));
            }
            Answer::Grpc(Err(status)) => (
                Some(http_status(status.code())),
                format!("{:?}: {}", status.code(), status.message()),
            ),
            Answer::Failed { why } => (None, why),
        };
        *lock(&self.why) = Some(why.clone());
        let status = answer.ok_or(why)?;
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status;
        Ok(response)
    }
}

/// Makes the exporter retry what can be retried.
fn http_status(code: Code) -> StatusCode {
    match code {
        Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::OutOfRange
        | Code::Unavailable
        | Code::DataLoss
        | Code::ResourceExhausted => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}
